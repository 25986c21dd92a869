"""Server processes under test: koordpy itself, and our own ones that stand in for the rest of a cluster."""

import contextlib
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import machine
from tests.e2e.controlplane.process import Process, free_port

__all__ = ["folder", "free_port", "koordpy", "module", "running"]

PROJECT = Path(__file__).parents[1]

_INSECURE = ssl._create_unverified_context()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Give a folder for logs and certificates that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="koordpy-bench-") as path:
        yield Path(path)


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str | Path], ready_url: str, logs: Path, core: int | None = None
) -> Iterator[Process]:
    """Run a server until the block ends; enters the block once `ready_url` answers with success.

    With `core` the process is kept on that core. Raises ProcessFailed with the end of its log.
    """
    process = Process(name, command, logs)
    try:
        if core is not None:
            machine.pin(process.pid, core)
        process.wait_ready(lambda: _answers(ready_url), seconds=180)
        yield process
    finally:
        process.stop()


def module(name: str, *arguments: str) -> list[str | Path]:
    """Return the command that runs a module of this package."""
    # Servers run in a folder of their own, so this checkout must be found some other way.
    return ["env", f"PYTHONPATH={PROJECT}", sys.executable, "-m", f"bench.{name}", *arguments]


def koordpy(*arguments: str) -> list[str | Path]:
    """Return a koordpy command line, as a user would type it."""
    return [Path(sys.executable).with_name("koordpy"), *arguments]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=_INSECURE):
            return True
    except (OSError, urllib.error.URLError):
        return False
