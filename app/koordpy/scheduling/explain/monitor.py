"""Reports attempts that take too long.

Between the filter call and the bind call kube-scheduler owns an attempt, and does not report when it abandons
one. So an attempt counts as running from its start, but only once a node was chosen for it; one without a
node is forgotten after a while. Source: Koordinator, `pkg/scheduler/frameworkext/scheduler_monitor.go`.
"""

import logging

import msgspec

from koordpy.lib import duration
from koordpy.lib.clock import Clock
from koordpy.scheduling.framework.metrics import SCHEDULING_TIMEOUT

from .decisions import ENDS, Decision, Step
from .settings import MonitorSettings

log = logging.getLogger(__name__)


class _UnderWay(msgspec.Struct, gc=False):
    """An attempt, by its number: holding the decision itself would keep all its arrays alive."""

    number: int
    key: str
    profile: str
    began: float
    has_node: bool = False


class Monitor:
    """Observes attempts; `check` is called every period."""

    def __init__(self, settings: MonitorSettings, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._attempts: dict[str, _UnderWay] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def __call__(self, decision: Decision, step: Step) -> None:
        """Process a step of an attempt."""
        uid = decision.pod.metadata.uid
        if step == "begun":
            self._attempts[uid] = _under_way(decision, self._clock.monotonic())
        elif step == "binding":
            known = self._attempts.get(uid)
            if known is None or known.number != decision.number:
                since = (self._clock.now() - decision.started).total_seconds()
                known = self._attempts[uid] = _under_way(decision, self._clock.monotonic() - max(since, 0.0))
            known.has_node = True
        elif step in ENDS:
            known = self._attempts.get(uid)
            if known is not None and known.number == decision.number:
                del self._attempts[uid]
                if known.has_node:
                    self._judge(uid, known)

    def check(self) -> None:
        """Report attempts that have taken too long, and forget those for which no node was chosen."""
        now = self._clock.monotonic()
        for uid, attempt in list(self._attempts.items()):
            if attempt.has_node:
                self._judge(uid, attempt)
            elif now - attempt.began > self.settings.drop_unhandled_timeout:
                del self._attempts[uid]

    def _judge(self, uid: str, attempt: _UnderWay) -> None:
        took, timeout = self._clock.monotonic() - attempt.began, self.settings.scheduling_timeout
        if took > timeout:
            log.warning(
                "!!!CRITICAL TIMEOUT!!! scheduling pod %s(%s) took longer (%s) than the timeout %s",
                attempt.key,
                uid,
                duration.format(round(took * 1e9)),
                duration.format(round(timeout * 1e9)),
            )
            SCHEDULING_TIMEOUT.labels(attempt.profile).inc()


def _under_way(decision: Decision, began: float) -> _UnderWay:
    return _UnderWay(decision.number, decision.pod.metadata.key, decision.profile, began)
