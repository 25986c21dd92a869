"""Attempts that take too long are reported."""

import logging

import pytest

from koordpy.lib.clock import FakeClock
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.explain.monitor import Monitor
from koordpy.scheduling.explain.settings import MonitorSettings
from koordpy.scheduling.framework.metrics import SCHEDULING_TIMEOUT
from koordpy.scheduling.interface.status import Status
from tests.unit.scheduling.worlds import NOW, pod


class Watch:
    """A monitor, and the decisions that it observes. `profile` is unique, for its metric."""

    def __init__(self, profile: str) -> None:
        self.clock = FakeClock(NOW)
        self.decisions = Decisions()
        self.monitor = Monitor(MonitorSettings(), self.clock)
        self.decisions.listen(self.monitor)
        self.profile = profile

    def begin(self, name: str = "p") -> Decision:
        decision = Decision(pod(name), self.profile, self.clock.now(), {})
        self.decisions.begin(decision)
        return decision

    @property
    def timeouts(self) -> float:
        return SCHEDULING_TIMEOUT.labels(self.profile)._value.get()


def test_an_attempt_is_reported_each_period_that_it_takes_too_long_and_once_more_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watch("m1")
    decision = watch.begin()
    decision.become("binding", "n")
    watch.clock.advance(30)
    watch.monitor.check()
    assert watch.timeouts == 0  # strictly more
    watch.clock.advance(1.5)
    with caplog.at_level(logging.WARNING):
        watch.monitor.check()
    assert caplog.messages == [
        "!!!CRITICAL TIMEOUT!!! scheduling pod default/p(uid-p) took longer (31.5s) than the timeout 30s"
    ]
    decision.become("bound")
    assert watch.timeouts == 2
    assert len(watch.monitor) == 0
    watch.monitor.check()
    assert watch.timeouts == 2


def test_an_attempt_that_ends_in_time_is_not_reported() -> None:
    watch = Watch("m2")
    decision = watch.begin()
    decision.become("binding", "n")
    watch.clock.advance(29)
    decision.fail("failed", Status.failed("no"))
    assert (watch.timeouts, len(watch.monitor)) == (0, 0)


def test_an_attempt_for_which_no_node_is_chosen_is_forgotten() -> None:
    watch = Watch("m3")
    watch.begin()
    watch.clock.advance(5)
    watch.monitor.check()
    assert len(watch.monitor) == 1
    watch.clock.advance(0.1)
    watch.monitor.check()
    assert (watch.timeouts, len(watch.monitor)) == (0, 0)


def test_a_forgotten_attempt_that_continues_counts_from_its_start() -> None:
    watch = Watch("m4")
    decision = watch.begin()
    watch.clock.advance(20)
    watch.monitor.check()
    decision.become("binding", "n")
    watch.clock.advance(11)
    watch.monitor.check()
    assert watch.timeouts == 1


def test_a_new_attempt_of_the_pod_replaces_the_earlier_one() -> None:
    watch = Watch("m5")
    earlier = watch.begin()
    watch.clock.advance(31)
    later = watch.begin()
    later.become("binding", "n")
    earlier.fail("superseded", Status.failed("late"))
    assert len(watch.monitor) == 1
    later.become("bound")
    assert (watch.timeouts, len(watch.monitor)) == (0, 0)
