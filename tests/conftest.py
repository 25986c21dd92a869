"""What every test may ask for on the command line."""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("koordpy", deadline=None)
settings.load_profile("koordpy")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--control-plane",
        choices=("embedded", "real"),
        default=os.environ.get("KOORDPY_CONTROL_PLANE", "embedded"),
        help="what tests/integration runs against: koordpy's embedded control plane (default) or a real "
        "kube-apiserver and etcd; the environment variable KOORDPY_CONTROL_PLANE sets it too",
    )


@pytest.fixture(autouse=True)
def _loudness() -> Iterator[None]:
    """Undo what a command that was run in this process has said about logging: it meant its own life."""
    loggers = (logging.getLogger(), logging.getLogger("koordpy"))
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
