"""Rounds of a strategy that evicts: gates, NodeSLO, thresholds and the cool time."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from koordpy.agent.interface.gates import BE_CPU_EVICT, CPU_EVICT, GATES
from koordpy.agent.toolkit.eviction.rounds import EvictionRounds
from koordpy.agent.toolkit.eviction.tasks import Candidate, EvictionTask, ReleaseTarget
from koordpy.agent.toolkit.eviction.thresholds import InvalidThresholdError
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates

COOL_SECONDS = 20.0
POD = decode(Pod, {"metadata": {"name": "p", "namespace": "d", "uid": "u"}})


class Stage:
    """A node of which every enabled feature wants to evict a pod."""

    def __init__(self, *, slo: dict[str, Any] | None, capacity="8", gates=(CPU_EVICT,), cooling=False):
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        node = decode(Node, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": capacity}}})
        section = None if slo is None else decode(NodeSLOSpec, {"resourceUsedThresholdWithBE": slo})
        self.evicted: list[str] = []
        self.refuses = False
        handle: Any = SimpleNamespace(
            clock=self.clock,
            gates=FeatureGates(GATES, dict.fromkeys(gates, True)),
            states=SimpleNamespace(node=lambda: node, node_slo=lambda: section, pods=list),
        )
        executor: Any = SimpleNamespace(evict=self.evict, is_evicted=lambda pod: False)
        self.rounds = EvictionRounds(
            handle,
            executor,
            {BE_CPU_EVICT: invalid, CPU_EVICT: task},
            resource="cpu",
            cool_seconds=lambda: COOL_SECONDS,
            cooling_from=self.clock.monotonic() if cooling else None,
        )

    async def evict(self, pod, reason, message):
        if self.refuses:
            return False
        self.evicted.append(pod.metadata.name)
        return True

    def round(self):
        self.evicted.clear()
        asyncio.run(self.rounds.round())
        return self.evicted


def task(thresholds, node, pods):
    return EvictionTask(
        CPU_EVICT, ReleaseTarget.USED, {"cpu": 1}, [Candidate(POD)], lambda candidate: {"cpu": 1}
    )


def invalid(thresholds, node, pods):
    raise InvalidThresholdError("nothing is configured")


def test_nothing_is_evicted_during_the_cool_time():
    stage = Stage(slo={"enable": True})
    assert stage.round() == ["p"]
    stage.clock.advance(COOL_SECONDS - 0.1)
    assert stage.round() == []
    stage.clock.advance(0.1)
    assert stage.round() == ["p"]


def test_a_strategy_may_begin_with_its_cool_time():
    stage = Stage(slo={"enable": True}, cooling=True)
    assert stage.round() == []
    stage.clock.advance(COOL_SECONDS)
    assert stage.round() == ["p"]


@pytest.mark.parametrize("slo", [None, {}, {"enable": False}])
def test_a_node_slo_must_enable_it(slo):
    assert Stage(slo=slo).round() == []


def test_a_feature_whose_gate_is_off_does_nothing():
    assert Stage(slo={"enable": True}, gates=()).round() == []


def test_a_node_without_the_resource_has_no_rounds():
    assert Stage(slo={"enable": True}, capacity="0").round() == []


def test_invalid_thresholds_of_one_feature_do_not_stop_the_others(caplog):
    stage = Stage(slo={"enable": True}, gates=(BE_CPU_EVICT, CPU_EVICT))
    assert stage.round() == ["p"]
    assert "BECPUEvict is off, its thresholds in NodeSLO are invalid: nothing is configured" in caplog.text
    caplog.clear()
    stage.clock.advance(COOL_SECONDS)
    assert stage.round() == ["p"]
    assert "BECPUEvict" not in caplog.text


def test_what_cannot_be_released_is_logged_once_until_something_changes(caplog):
    stage = Stage(slo={"enable": True})
    stage.refuses = True

    def logged():
        return [line for line in caplog.messages if "could not release 0.001 of cpu" in line]

    for _ in range(3):
        assert stage.round() == []
    assert len(logged()) == 1
    stage.refuses = False
    assert stage.round() == ["p"]
    stage.refuses = True
    stage.clock.advance(COOL_SECONDS)
    stage.round()
    assert len(logged()) == 2
