"""Leader election by a Lease, as in client-go's leaderelection.

Clocks of the candidates may differ: no candidate compares the times in the Lease with its own clock. A
candidate waits until it has seen the Lease unchanged for the Lease's duration on its own monotonic clock. A
leader that cannot renew stops before another candidate may start (`renew_deadline` < `lease_duration`).

A candidate that needs the lead now may *claim* the Lease, by an annotation: the leader sees it with its next
renewal, and decides when to end its work. A Lease released for a claim is reserved for the claimant for a
while.
"""

import asyncio
import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable

from prometheus_client import Gauge

from koordpy.api.core import Lease
from koordpy.api.meta import ObjectMeta, format_micro_time
from koordpy.lib.clock import Clock, SystemClock

from .client import Client
from .errors import ApiError, Conflict, ConnectionFailed, NotFound

log = logging.getLogger(__name__)

JITTER = 1.2
"""A candidate waits 1 to 2.2 retry periods between tries (client-go: JitterFactor)."""

CLAIM = "koordpy.dev/claimed-by"
"""The annotation of a Lease that names the candidate which requests its release."""

CLAIMED_TRIES = 4
"""How much more often a candidate that claims the Lease tries than others."""

LEADING = Gauge("koordpy_leader", "1 while this process holds the lease.", ["lease"])


class LeaderElector:
    """A candidate for one Lease. Times are seconds; the defaults are client-go's.

    `identity` must be unique among the candidates. With `release_on_exit` the Lease is released when `run`
    ends, so that the next leader need not wait for it to expire. `on_new_leader` is called with each holder
    seen, `on_held` with the time (monotonic seconds) at which a successful acquisition or renewal was sent:
    no other candidate has the Lease before `duration` seconds after that. `claims` returns whether the Lease
    is wanted immediately.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        release_on_exit: bool = True,
        on_new_leader: Callable[[str], None] | None = None,
        on_held: Callable[[float], None] | None = None,
        claims: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if int(lease_duration) <= renew_deadline:  # a Lease has whole seconds
            raise ValueError(
                f"leaseDuration {lease_duration:g}s must be above renewDeadline {renew_deadline:g}s"
            )
        if renew_deadline <= JITTER * retry_period:
            raise ValueError(
                f"renewDeadline {renew_deadline:g}s must be above {JITTER} "
                f"times retryPeriod {retry_period:g}s"
            )
        if lease_duration < 1 or retry_period <= 0 or not identity:
            raise ValueError("leaseDuration must be 1s or more, retryPeriod positive, identity not empty")
        self.namespace, self.name, self.identity = namespace, name, identity
        self.duration = int(lease_duration)
        self.problem = ""
        """The error of the last try; empty if it was answered."""
        self._client = client
        self._renew_deadline = renew_deadline
        self._retry_period, self._release_on_exit = retry_period, release_on_exit
        self._on_new_leader, self._on_held, self._claims = on_new_leader, on_held, claims
        self._claimed = asyncio.Event()
        self._clock, self._rng, self._sleep = clock or SystemClock(), rng or random.Random(), sleep
        self._observed: Lease | None = None
        self._observed_at = 0.0
        self._reported_leader: str | None = None
        self._gauge = LEADING.labels(f"{namespace}/{name}")

    @property
    def leader(self) -> str:
        """The last holder seen, or empty."""
        return (self._observed.spec.holder_identity or "") if self._observed else ""

    @property
    def claimant(self) -> str:
        """The last candidate seen claiming the Lease, or empty."""
        return self._observed.metadata.annotations.get(CLAIM, "") if self._observed else ""

    @property
    def is_leader(self) -> bool:
        """Whether this process holds a Lease that has not expired."""
        return self.leader == self.identity and self._is_valid()

    async def run(
        self, lead: Callable[[], Awaitable[None]], on_stopped: Callable[[], None] | None = None
    ) -> None:
        """Wait for the Lease, then run `lead` as long as it is held.

        Returns when `lead` returns or the Lease is lost; in the latter case `lead` is cancelled first. Raises
        what `lead` raises. `on_stopped` is called in each case after `lead` has ended.
        """
        try:
            await self._acquire()
            await self._lead(lead)
        finally:
            self._gauge.set(0)
            if on_stopped is not None:
                on_stopped()
            if self._release_on_exit and self.leader == self.identity:
                await self._release()

    def claim(self) -> None:
        """Try immediately, because `claims` is true now."""
        self._claimed.set()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        log.info("leading: %s/%s as %s", self.namespace, self.name, self.identity)
        self._gauge.set(1)
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew_until_lost())
        try:
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            renewing.cancel()
            ended = leading.done()
            leading.cancel()
            await asyncio.gather(leading, renewing, return_exceptions=True)
        if ended:
            leading.result()
        else:
            log.error("lost the lease %s/%s: not renewed in time", self.namespace, self.name)

    async def _acquire(self) -> None:
        while not await self._try(self._renew_deadline):
            await self._rest()

    async def _rest(self) -> None:
        """Wait for the next try to acquire; a new claim ends the wait."""
        if self._claims():
            await self._sleep(self._retry_period / CLAIMED_TRIES)
            return
        self._claimed.clear()
        resting = asyncio.ensure_future(self._sleep(self._retry_period * (1 + JITTER * self._rng.random())))
        claimed = asyncio.ensure_future(self._claimed.wait())
        try:
            await asyncio.wait({resting, claimed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            resting.cancel()
            claimed.cancel()

    async def _renew_until_lost(self) -> None:
        """Renew every retry period; return once that has failed for the renew deadline."""
        while True:
            since = self._clock.monotonic()
            while not await self._try(self._renew_deadline - (self._clock.monotonic() - since)):
                if self._clock.monotonic() - since + self._retry_period >= self._renew_deadline:
                    return
                await self._sleep(self._retry_period)
            await self._sleep(self._retry_period)

    async def _try(self, timeout: float) -> bool:
        """Acquire or renew once; return whether this process now holds the Lease. Failures are logged."""
        try:
            async with asyncio.timeout(max(timeout, 0.001)):
                held = await self._acquire_or_renew()
            self.problem = ""
        except (ApiError, ConnectionFailed, TimeoutError) as error:
            problem = str(error) or "no answer in time"
            level = logging.DEBUG if problem == self.problem else logging.WARNING
            log.log(level, "lease %s/%s: %s", self.namespace, self.name, problem)
            self.problem = problem
            held = False
        if self.leader != self._reported_leader and self.leader:
            self._reported_leader = self.leader
            if self._on_new_leader is not None:
                self._on_new_leader(self.leader)
        return held

    async def _acquire_or_renew(self) -> bool:
        if self.is_leader and self._observed is not None:
            try:
                await self._take(self._observed)
                return True
            except ApiError as error:
                log.info("lease %s/%s: %s; reading it again", self.namespace, self.name, error)
        try:
            current = await self._client.get(Lease, self.namespace, self.name)
        except NotFound:
            meta = ObjectMeta(name=self.name, namespace=self.namespace)
            since = self._clock.monotonic()
            self._hold(await self._client.create(Lease(metadata=meta, spec=self._spec(None))), since)
            return True
        self._observe(current, self._clock.monotonic())
        if self.leader and self.leader != self.identity and self._is_valid():
            if self._claims() and self.claimant != self.identity:
                await self._lay_claim()
            return False
        if self.leader != self.identity and self._is_left_to_another():
            return False
        await self._take(current)
        return True

    async def _take(self, current: Lease) -> None:
        """Acquire or renew the Lease, unless another candidate changed it since (Conflict)."""
        since = self._clock.monotonic()
        self._hold(await self._patch(current, self._spec(current)), since)

    async def _lay_claim(self) -> None:
        log.info("lease %s/%s: claiming it from %s", self.namespace, self.name, self.leader)
        patch = {"metadata": {"annotations": {CLAIM: self.identity}}}
        claimed = await self._client.patch(Lease, self.namespace, self.name, patch)
        self._observe(claimed, self._clock.monotonic())

    def _is_left_to_another(self) -> bool:
        """Whether the Lease was just released for another candidate that has not had time to acquire it."""
        if self.claimant in ("", self.identity):
            return False
        patience = self._retry_period if self._claims() else self.duration
        return self._clock.monotonic() < self._observed_at + patience

    async def _patch(self, current: Lease, spec: Lease.Spec) -> Lease:
        metadata: dict[str, object] = {"resourceVersion": current.metadata.resource_version}
        if spec.holder_identity == self.identity != current.spec.holder_identity and self.claimant:
            metadata["annotations"] = {CLAIM: None}  # a candidate that still waits claims it again
        patch = {"metadata": metadata, "spec": spec}
        return await self._client.patch(Lease, self.namespace, self.name, patch)

    def _spec(self, current: Lease | None) -> Lease.Spec:
        now = format_micro_time(self._clock.now())
        old = Lease.Spec() if current is None else current.spec
        ours = old.holder_identity == self.identity
        changed = current is not None and not ours
        return Lease.Spec(
            holder_identity=self.identity,
            lease_duration_seconds=self.duration,
            acquire_time=old.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=(old.lease_transitions or 0) + changed,
        )

    async def _release(self) -> None:
        """Release the Lease; if that fails it expires."""
        now = format_micro_time(self._clock.now())
        free = Lease.Spec(holder_identity="", lease_duration_seconds=1, acquire_time=now, renew_time=now)
        try:
            async with asyncio.timeout(self._renew_deadline):
                assert self._observed is not None
                try:
                    released = await self._patch(self._observed, free)
                except Conflict:  # a renewal took effect after it was abandoned
                    current = await self._client.get(Lease, self.namespace, self.name)
                    if current.spec.holder_identity != self.identity:
                        return
                    released = await self._patch(current, free)
                self._observe(released, self._clock.monotonic())
        except (ApiError, ConnectionFailed, TimeoutError) as error:
            log.warning("lease %s/%s was not released: %s", self.namespace, self.name, error)

    def _hold(self, lease: Lease, since: float) -> None:
        self._observe(lease, since)
        if self._on_held is not None and self.leader == self.identity:
            self._on_held(self._observed_at)

    def _observe(self, lease: Lease, since: float) -> None:
        """Remember the Lease, and since when it has been unchanged.

        An own renewal counts from when it was sent: the server may have applied it that early.
        """
        if self._observed is None or self._observed.spec != lease.spec:
            self._observed_at = since
        self._observed = lease

    def _is_valid(self) -> bool:
        if self._observed is None:
            return False
        duration = self._observed.spec.lease_duration_seconds or 0
        return self._clock.monotonic() < self._observed_at + duration


def identity() -> str:
    """Return a unique name of this process: host, process id, and random bits."""
    return f"{socket.gethostname()}_{os.getpid()}_{random.SystemRandom().randrange(16**8):08x}"
