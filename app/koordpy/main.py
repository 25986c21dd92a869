"""Run a koordpy process until it is stopped: event loop, signals, logging, memory."""

import asyncio
import ctypes
import logging
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import disable_created_metrics

from koordpy.compose.part import ConfigSource
from koordpy.compose.process import Process
from koordpy.lib import garbage
from koordpy.lib.log_format import LineFormatter
from koordpy.lib.resident_memory import return_clean_pages
from koordpy.lib.verbosity import set_verbosity
from koordpy.settings import Settings

log = logging.getLogger(__name__)

_RETURNED_FROM = 1 << 20
"""Bytes of a block that is returned by itself: four times what is read from a connection at once."""

_RETURNED_TOGETHER = 4 << 20
"""Bytes of freed smaller blocks that are returned together."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # `mallopt(3)`

_OPEN_FILES = 65_536


def set_up_logging(verbosity: int) -> None:
    """Log to standard error; `verbosity` 0 logs warnings and important events, 1 more, 2 everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler])
    set_verbosity(verbosity)


def run_process(settings: Settings, parts: Iterable[str], source: ConfigSource | None = None) -> None:
    """Run a process with these parts until SIGTERM or SIGINT, or until their work is over.

    Parts that can do so follow changes of the `source` of their settings.
    Raises what `Process` raises, and the error that ends a part's work.
    """

    async def running(stopping: asyncio.Event) -> None:
        process = Process(settings, parts, source=source)
        garbage.begin_listing()
        try:
            await _first(_serve(process), stopping.wait())
        finally:
            await process.stop()

    allow_many_connections()
    run(running)


async def _serve(process: Process) -> None:
    await process.start()
    await _first(_tune_when_ready(process), process.wait())


async def _tune_when_ready(process: Process) -> None:
    await process.wait_ready()
    tune_memory()
    await asyncio.Event().wait()


def run(program: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run a program on uvloop; the event that it receives is set on SIGTERM and SIGINT."""

    garbage.collect_seldom()
    return_freed_memory()
    # They double the number of series, and no dashboard uses them.
    disable_created_metrics()  # type: ignore[no-untyped-call]

    async def main() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        await program(stopping)

    try:
        import uvloop
    except ImportError:  # not on Windows
        asyncio.run(main())
    else:
        uvloop.run(main())


def allow_many_connections() -> None:
    """Raise this process's limit of open files to the hard limit: 1,024 are soon used up."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def return_freed_memory() -> None:
    """Return large freed blocks of memory to the system at once, on glibc, but not what each request needs.

    By default glibc soon keeps them, so that a process stays as large as after its most demanding callers.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _RETURNED_FROM)
        mallopt(_M_TRIM_THRESHOLD, _RETURNED_TOGETHER)


def tune_memory() -> None:
    """Leave the listed objects out of garbage collections, and give back what only the start needed."""
    garbage.end_listing()
    return_clean_pages()


async def _first(*awaitables: Awaitable[object]) -> None:
    """Wait until one has ended (raising its error), and cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
