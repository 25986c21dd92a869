"""The reconcile loop of a controller: take a key, reconcile its object, schedule the next time.

Source: controller-runtime, `pkg/internal/controller/controller.go`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from time import perf_counter
from typing import Final

from prometheus_client import Counter, Histogram

from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.cluster.retry import retried as retried

from . import metrics
from .queue import WorkQueue

log = logging.getLogger(__name__)

_SLICE: Final = 0.01
"""Seconds after which others of the event loop get their turn."""

Reconcile = Callable[[str], Awaitable[float | None]]
"""Reconciles a key; returns the seconds after which to reconcile it again, None for never."""


class ReconcileError(Exception):
    """A key cannot be reconciled now; the message says why. It is retried with backoff.

    `level` is the one of `logging` with which that is logged: lower than an error for what is no fault, such
    as a rate limit.
    """

    def __init__(self, message: str, *, level: int = logging.ERROR) -> None:
        super().__init__(message)
        self.level = level


async def reconcile_forever(queue: WorkQueue, reconcile: Reconcile, *, workers: int = 1) -> None:
    """Process the keys of a queue until cancelled, `workers` of them at a time.

    A key whose reconciliation raises is retried after its own backoff; the others do not wait for it.
    """
    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(_work(queue, reconcile))


async def _work(queue: WorkQueue, reconcile: Reconcile) -> None:
    clock = asyncio.get_running_loop().time  # on simulated time turns must not depend on how fast work is
    since = clock()
    while True:
        key = await queue.get()
        try:
            await reconcile_once(queue, key, reconcile)
        finally:
            queue.done(key)
        if clock() - since > _SLICE:  # a key that needs no I/O never waits by itself
            await asyncio.sleep(0)
            since = clock()


async def reconcile_once(queue: WorkQueue, key: str, reconcile: Reconcile) -> None:
    """Process one key, and add it again if that is due. Raises nothing but cancellation."""
    began = perf_counter()
    try:
        again = await reconcile(key)
    except Exception as error:
        expected = isinstance(error, ReconcileError | ApiError | ConnectionFailed)
        level = error.level if isinstance(error, ReconcileError) else logging.ERROR
        log.log(level, "%s: reconcile of %s failed: %s", queue.name, key, error, exc_info=not expected)
        metrics.RECONCILE_ERRORS.labels(queue.name).inc()
        result = "error"
        queue.add_rate_limited(key)
    else:
        queue.forget(key)
        result = "success" if again is None else "requeue_after"
        if again is not None:
            queue.add_after(key, again)
    reconciles, seconds = _metrics(queue.name, result)
    reconciles.inc()
    seconds.observe(perf_counter() - began)


@cache
def _metrics(name: str, result: str) -> tuple[Counter, Histogram]:
    """Return the metrics of a queue; looking them up by labels takes longer than a short reconciliation."""
    return metrics.RECONCILES.labels(name, result), metrics.RECONCILE_SECONDS.labels(name)
