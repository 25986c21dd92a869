"""Command line options and fixtures of all tests."""

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.cgroups.fixtures import node_cgroups as node_cgroups
from tests.cgroups.fixtures import v2_cgroups as v2_cgroups
from tests.dirty_books import why_dirty

if TYPE_CHECKING:
    from tests.audited import FollowedServers

# How long an example takes says how busy the machine is, not whether the code is right. And a change must not
# fail because of a random example for code that it does not change: every run uses the same examples.
# HYPOTHESIS_PROFILE=explore uses others, and more of them.
settings.register_profile(
    "koordpy", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("koordpy"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "koordpy"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--control-plane",
        choices=("embedded", "real"),
        default=os.environ.get("KOORDPY_CONTROL_PLANE", "embedded"),
        help="what tests/integration runs against: koordpy's embedded control plane (default) or a real "
        "kube-apiserver and etcd; the environment variable KOORDPY_CONTROL_PLANE sets it too",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the modules and the tests themselves, which stay to the end, out of garbage collections.

    They are millions of objects: to visit them again and again took two fifths of the time of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


AUDITED = (
    "tests/e2e/",
    "tests/faults/",
    "tests/integration/audit/",
    "tests/integration/devices/",
    "tests/integration/deviceshare/",
    "tests/integration/reservations/",
    "tests/integration/scheduler/",
)
"""Tests of these folders end with an audit of their embedded API servers."""

SERVERS: "pytest.StashKey[FollowedServers]" = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Follow embedded API servers from the first test on that ends with an audit."""
    if item.nodeid.startswith(AUDITED) and SERVERS not in item.config.stash:
        from tests.audited import followed_servers

        stack = ExitStack()
        item.config.stash[SERVERS] = stack.enter_context(followed_servers())
        item.config.add_cleanup(stack.close)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail if something was handed out twice at some moment of a test or of its end."""
    yield
    servers = item.config.stash.get(SERVERS, None)
    if servers is not None:
        found = servers.report()  # of every test: what one of another folder leaves is not the next one's
        audited = item.nodeid.startswith(AUDITED)
        assert not (audited and found) or why_dirty(item.nodeid), "\n".join(found)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Forget the applications of finished tests: FastAPI keeps 4,096 endpoints, and with them all else.

    The tasks of hundreds of applications make every event loop that ends slower, and the heap larger.
    """
    models = sys.modules.get("fastapi.dependencies.models")
    for value in vars(models).values() if models is not None else ():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether tests of cgroups had real ones. Workers of xdist send it with the reports of tests."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    used = {
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "cgroups"
    }
    for description in sorted(used):
        terminalreporter.write_line(f"cgroups of tests: {description}")


@pytest.fixture(autouse=True)
def _loudness() -> Iterator[None]:
    """Undo what a command that was run in this process has said about logging: it meant its own life."""
    loggers = (logging.getLogger(), logging.getLogger("koordpy"))
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
