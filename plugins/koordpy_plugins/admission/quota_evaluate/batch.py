"""Pods that are charged to one quota together: one read, one write, and a retry after a conflict.

Source: Koordinator, `pkg/webhook/quotaevaluate/evaluator.go`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from koordpy.admission.handler import Errored, RandomSource
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import Quantity
from koordpy.api.resource_amounts import plus
from koordpy.api.resource_list import Quantities
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.lib import duration
from koordpy.lib.queue_metrics import QueueMetrics

from .accessor import QuotaAccessor, QuotaGone
from .account import Account, Refused
from .args import EvaluateQuotaArgs

_LEAST_RETRIES: Final = 3


class Waiter:
    """A pod whose admission waits for its quota. Open until it is decided or its caller stops waiting."""

    def __init__(self, requests: Mapping[str, Quantity]) -> None:
        """Create an open one; there must be a running event loop."""
        self.requests = requests
        self._refusal: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether it is undecided and its caller still waits."""
        return not self._refusal.done()

    async def wait(self) -> None:
        """Wait for the decision; raise the refusal if there is one. Cancellation closes it."""
        refusal = await self._refusal
        if refusal is not None:
            raise refusal

    def allow(self) -> None:
        """Admit the pod, if this is open."""
        if self.is_open:
            self._refusal.set_result(None)

    def refuse(self, error: Exception) -> None:
        """Refuse the pod, if this is open."""
        if self.is_open:
            self._refusal.set_result(error)


@dataclass
class Jitter:
    """The pauses of one batch; `spent` is their sum so far, in nanoseconds."""

    args: EvaluateQuotaArgs
    rng: RandomSource
    spent: int = 0

    def grant(self, retries: int) -> float:
        """Return the seconds to pause if the next write has a conflict, 0 once the maximum is reached."""
        longest = self.args.retry_jitter
        if retries <= 0 or longest <= 0 or self.spent + longest > self.args.max_total_jitter:
            return 0.0
        self.spent += longest
        return self.rng.randint(longest // 2, longest - 1) / duration.SECOND


def retries_for(pods: int, max_retries: int) -> int:
    """Return the retries of a write for so many pods, which grow with their number."""
    if pods <= 1:
        return _LEAST_RETRIES
    return min(_LEAST_RETRIES + pods.bit_length() - 1, most_retries(max_retries))


def most_retries(max_retries: int) -> int:
    """Return the retries of any write."""
    return max(max_retries, _LEAST_RETRIES)


@dataclass
class Batch:
    """The pods that wait for one quota. `run` decides on all of them."""

    key: str
    waiters: list[Waiter]
    accessor: QuotaAccessor
    jitter: Jitter
    metrics: QueueMetrics
    _names: frozenset[str] = frozenset()
    _charged: list[tuple[Waiter, Quantities]] = field(default_factory=list)

    async def run(self) -> None:
        """Read the quota, charge the pods in order, write once; retry while that fails."""
        max_retries = self.jitter.args.max_retries
        retries = most_retries(max_retries)
        try:
            quota = self.accessor.get(self.key)
        except QuotaGone as error:
            self._refuse(Errored(400, str(error)))
            return
        while True:
            account = Account(quota)
            if not self._charge_as_before(account):
                self._charge(account)
                if not self._charged:
                    return
                retries = min(retries, retries_for(len(self._charged), max_retries))
            failure = await self._write(quota, account, retries)
            if failure is None:
                self._allow()
                return
            if retries <= 0:
                self._refuse(failure)
                return
            try:
                quota = self.accessor.get(self.key)
            except QuotaGone:
                self._refuse(failure)
                return
            retries -= 1
            self.metrics.retry()

    def _charge(self, account: Account) -> None:
        """Charge pod by pod; refuse those that exceed the quota."""
        self._names, self._charged = account.names, []
        for waiter in self.waiters:
            if not waiter.is_open:
                continue
            try:
                added = account.charge(waiter.requests)
            except Refused as refused:
                waiter.refuse(Errored(400, str(refused)))
                continue
            if added:
                self._charged.append((waiter, added))
            else:
                waiter.allow()

    def _charge_as_before(self, account: Account) -> bool:
        """Charge the sum that fitted an earlier read; False if each pod must be charged again."""
        charged = [added for waiter, added in self._charged if waiter.is_open]
        if not charged or account.names != self._names:
            return False
        return account.charge_again(reduce(plus, charged))

    async def _write(self, quota: ElasticQuota, account: Account, retries: int) -> Errored | None:
        """Write the account; return the error if that failed."""
        try:
            await self.accessor.write(quota, account.text(), self.jitter.grant(retries))
        except ApiError as error:
            return Errored(400, error.message)
        except ConnectionFailed as error:
            return Errored(400, str(error))
        return None

    def _allow(self) -> None:
        for waiter in self.waiters:
            waiter.allow()

    def _refuse(self, error: Exception) -> None:
        for waiter in self.waiters:
            waiter.refuse(error)
