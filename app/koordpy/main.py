"""Run a koordpy process until it is told to stop: event loop, signals, logging, memory."""

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import disable_created_metrics

from koordpy.compose.process import Process
from koordpy.lib.verbosity import set_verbosity
from koordpy.settings import Settings

log = logging.getLogger(__name__)

_COLLECT_AFTER = 200_000
"""New containers between two collections: what is cached holds few cycles, and little of it ever dies."""

_COLLECT_WHILE_LISTING_AFTER = 2_000_000
"""The same until the first lists are complete: ten containers a pod, of which none dies."""

_OPEN_FILES = 65_536


def set_up_logging(verbosity: int) -> None:
    """Log to standard error; `verbosity` 0 shows warnings and what matters, 1 more, 2 everything."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname).1s %(name)s: %(message)s")
    set_verbosity(verbosity)


def run_process(settings: Settings, parts: Iterable[str]) -> None:
    """Run a process with these parts until SIGTERM or SIGINT, or until their work is over.

    Raises what `Process` raises, and what the work of a part ends with.
    """

    async def running(stopping: asyncio.Event) -> None:
        process = Process(settings, parts)
        begin_listing()
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
    """Run a program on the fast event loop; the event it is given is set on SIGTERM and SIGINT."""

    collect_seldom()
    # They double every series, and nobody reads them.
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
    """Let this process have as many open files as the system allows it: 1,024 are soon used up."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def collect_seldom(after: int = _COLLECT_AFTER) -> None:
    """Let the garbage collector run less often: while lists are read it would do so a thousand times."""
    gc.set_threshold(after, 20, 50)


def begin_listing() -> None:
    """Keep the garbage collector away from the first lists, until `tune_memory`."""
    collect_seldom(_COLLECT_WHILE_LISTING_AFTER)


def tune_memory() -> None:
    """Take what was listed out of the garbage collector's sight.

    Cached objects live as long as the process; walking a hundred thousand of them stops everything for a
    tenth of a second.
    """
    gc.collect()
    gc.freeze()
    collect_seldom()


async def _first(*awaitables: Awaitable[object]) -> None:
    """Return when one has ended (raising what it raised), and cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
