"""Charge pods to their quotas: many pods with few writes, one quota at a time each.

Pods that arrive while their quota is being written form its next batch, so the API server gets one write per
round trip, however many pods are created. A caller that is cancelled or times out is removed from undecided
batches. All state is in the ElasticQuota: nothing is lost when a process ends, and several evaluators (one
per replica) can work on the same quotas.

Source: Koordinator, `pkg/webhook/quotaevaluate/evaluator.go`.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from koordpy.admission.handler import Errored, RandomSource
from koordpy.api.quantity import Quantity
from koordpy.lib.queue_metrics import QueueMetrics

from .accessor import QuotaAccessor, QuotaGone
from .account import Account, Refused
from .args import EvaluateQuotaArgs
from .batch import Batch, Jitter, Waiter

log = logging.getLogger(__name__)

PATIENCE: Final = 10.0
"""The maximum seconds that a caller waits, and so the maximum that a batch may take."""

WORKERS: Final = 16
"""Quotas that are processed at the same time."""

QUEUE: Final = "admission_quota_controller"
"""The name of the queue of quotas in metrics."""

TIMED_OUT: Final = "Internal error occurred: elastic quota evaluation timed out"
STOPPED: Final = "Internal error occurred: elastic quota evaluation was stopped"


class QuotaEvaluator:
    """Decides whether pods fit their quotas, and charges them."""

    def __init__(
        self,
        accessor: QuotaAccessor,
        args: EvaluateQuotaArgs,
        *,
        rng: RandomSource,
        metrics: QueueMetrics,
        patience: float = PATIENCE,
        workers: int = WORKERS,
    ) -> None:
        self._accessor, self._args, self._rng, self._metrics = accessor, args, rng, metrics
        self._patience = patience
        self._slots = asyncio.Semaphore(workers)
        self._forming: dict[str, list[Waiter]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def check(self, key: str, requests: Mapping[str, Quantity]) -> None:
        """Check that a pod fits its quota now, without charging it. Raises Errored(400) if it does not."""
        try:
            Account(self._accessor.get(key)).charge(requests)
        except (QuotaGone, Refused) as error:
            raise Errored(400, str(error)) from None

    async def charge(self, key: str, requests: Mapping[str, Quantity]) -> None:
        """Charge a quota; return once that is written. Raises Errored.

        Refused with 400 if the pod does not fit, if the quota cannot be read or written, or after a timeout,
        in which case the quota may be charged nevertheless.
        """
        if not self._accessor.can_write:
            raise Errored(500, f"quota {key} cannot be charged: there is no API server to write to")
        waiter = Waiter(requests)
        self._forming.setdefault(key, []).append(waiter)
        self._metrics.add(key)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._work(key), name=f"quota-{key}")
        try:
            async with asyncio.timeout(self._patience):
                await waiter.wait()
        except TimeoutError:
            raise Errored(400, TIMED_OUT) from None

    async def _work(self, key: str) -> None:
        """Process one batch after the other until none is left."""
        try:
            while key in self._forming:
                async with self._slots:
                    await self._run(key, self._forming.pop(key))
        finally:
            del self._tasks[key]
            self._metrics.drop(key)
            for waiter in self._forming.pop(key, ()):
                waiter.refuse(Errored(500, STOPPED))

    async def _run(self, key: str, waiters: list[Waiter]) -> None:
        """Process one batch; every caller gets a decision, also after an error."""
        batch = Batch(key, waiters, self._accessor, Jitter(self._args, self._rng), self._metrics)
        left: Exception = Errored(500, STOPPED)
        self._metrics.begin(key)
        try:
            async with asyncio.timeout(self._patience):
                await batch.run()
        except TimeoutError:
            left = Errored(400, TIMED_OUT)
        except Exception as error:
            log.exception("quota %s: evaluation failed", key)
            left = error
        finally:
            self._metrics.done(key)
            for waiter in waiters:
                waiter.refuse(left)
