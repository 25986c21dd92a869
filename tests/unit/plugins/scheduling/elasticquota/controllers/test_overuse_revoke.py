"""Over-use of quotas: when it triggers, which pods go, and what cannot be evicted."""

from typing import Any

import pytest

from koordpy.api import resource_list
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.cluster.errors import NotFound, TooManyRequests
from koordpy_plugins.scheduling.elasticquota.controllers.overuse_revoke import (
    QuotaOverUsedRevokeController,
    to_revoke,
    to_revoke_exactly,
)

from .quotas import Quotas


def made(**args: Any) -> tuple[Quotas, QuotaOverUsedRevokeController]:
    quotas = Quotas(monitor_all_quotas=True, delay_evict_time=10.0, **args)
    quotas.quota("a")
    return quotas, QuotaOverUsedRevokeController(quotas.args, quotas.handle, quotas.trees)


def give(quotas: Quotas, name: str = "a", **runtime: str) -> None:
    info = quotas.trees.quota(name)
    assert info is not None
    info.runtime = resource_list.from_wire(runtime)


def pinned(quotas: Quotas, **runtime: str) -> list[str]:
    """Koordinator's own example: four pods, by priority, and what is revoked of them."""
    for index, (priority, cpu, memory) in enumerate([(10, 20, 0), (9, 10, 1), (8, 20, 0), (7, 40, 0)], 1):
        requests = {"memory": str(memory)}
        quotas.pod(f"p{index}", "a", priority=priority, cpu=str(cpu), requests=requests)
    give(quotas, **runtime)
    info = quotas.trees.quota("a")
    assert info is not None
    pods = to_revoke(info, quotas.trees.tree_of("a").requests, quotas.clock.now())
    return [pod.metadata.name for pod in pods]


def test_pods_that_fit_back_stay() -> None:
    quotas, _ = made()
    assert pinned(quotas, cpu="50", memory="0") == ["p2", "p4"]


def test_all_pods_go_if_nothing_fits() -> None:
    quotas, _ = made()
    assert pinned(quotas, cpu="-1") == ["p4", "p3", "p2", "p1"]


def test_pods_that_are_not_preemptible_stay() -> None:
    quotas, controller = made()
    label = {"quota.scheduling.koordinator.sh/preemptible": "false"}
    quotas.pod("keep", "a", priority=1, cpu="2", labels=label)
    quotas.pod("go", "a", priority=9, cpu="2")
    give(quotas, cpu="1")
    assert controller.due() == {}
    quotas.clock.advance(10.5)
    assert [pod.metadata.name for pod in controller.due()["a"]] == ["go"]


def test_of_equal_priorities_the_latest_start_goes_first_and_a_pod_that_has_not_started_before_all() -> None:
    quotas, _ = made()
    for name, start in (("old", "2029-01-01T00:00:00Z"), ("new", "2029-06-01T00:00:00Z"), ("none", "")):
        quotas.pod(name, "a", cpu="1", status={"startTime": start} if start else {})
    give(quotas, cpu="1")
    info = quotas.trees.quota("a")
    assert info is not None
    pods = to_revoke(info, quotas.trees.tree_of("a").requests, quotas.clock.now())
    assert {pod.metadata.name for pod in pods} == {"new", "none"}


def two_resources() -> Quotas:
    """One core and one GPU too many, of which the least important pod has a core alone."""
    quotas, _ = made()
    quotas.pod("cpu-only", "a", priority=1, cpu="2")
    quotas.pod("gpu", "a", priority=2, cpu="1", requests={"example.com/gpu": "1"})
    quotas.pod("other-gpu", "a", priority=3, cpu="1", requests={"example.com/gpu": "1"})
    give(quotas, **{"cpu": "3", "example.com/gpu": "1"})
    return quotas


def test_a_resource_that_the_last_pod_does_not_request_is_overlooked_as_in_koordinator() -> None:
    quotas = two_resources()
    info = quotas.trees.quota("a")
    assert info is not None
    found = to_revoke(info, quotas.trees.tree_of("a").requests, quotas.clock.now())
    assert [pod.metadata.name for pod in found] == ["cpu-only"]


def test_exact_revocation_counts_every_resource_and_takes_no_pod_in_vain() -> None:
    quotas = two_resources()
    info = quotas.trees.quota("a")
    assert info is not None
    found = to_revoke_exactly(info, quotas.trees.tree_of("a").requests, quotas.clock.now())
    assert [pod.metadata.name for pod in found] == ["gpu"]


def test_exact_revocation_counts_pods_that_are_being_deleted_as_gone() -> None:
    quotas, _ = made()
    quotas.pod("going", "a", priority=9, cpu="2", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    quotas.pod("stays", "a", priority=1, cpu="2")
    give(quotas, cpu="2")
    info = quotas.trees.quota("a")
    assert info is not None
    assert to_revoke_exactly(info, quotas.trees.tree_of("a").requests, quotas.clock.now()) == []


def test_the_argument_selects_exact_revocation() -> None:
    quotas, controller = made(revoke_exactly=True)
    quotas.pod("cpu-only", "a", priority=1, cpu="2")
    quotas.pod("gpu", "a", priority=2, cpu="1", requests={"example.com/gpu": "2"})
    give(quotas, **{"cpu": "3", "example.com/gpu": "1"})
    controller.due()
    quotas.clock.advance(11)
    assert [pod.metadata.name for pod in controller.due()["a"]] == ["gpu"]


def test_over_use_must_last_longer_than_the_delay_and_triggers_once() -> None:
    quotas, controller = made()
    quotas.pod("p", "a", cpu="2")
    give(quotas, cpu="1")
    assert controller.due() == {}
    quotas.clock.advance(10)
    assert controller.due() == {}
    quotas.clock.advance(0.5)
    assert list(controller.due()) == ["a"]
    quotas.clock.advance(5)
    assert controller.due() == {}


def test_a_moment_within_the_runtime_starts_the_delay_again() -> None:
    quotas, controller = made()
    quotas.pod("p", "a", cpu="2")
    give(quotas, cpu="1")
    controller.due()
    quotas.clock.advance(9)
    give(quotas, cpu="2")
    controller.due()
    give(quotas, cpu="1")
    quotas.clock.advance(9)
    assert controller.due() == {}


def test_resources_without_runtime_are_not_limited() -> None:
    quotas, controller = made()
    quotas.pod("p", "a", cpu="2", requests={"example.com/gpu": "3"})
    give(quotas, cpu="2")
    controller.due()
    quotas.clock.advance(20)
    assert controller.due() == {}


def test_nothing_is_kept_of_quotas_that_were_deleted() -> None:
    quotas, controller = made()
    controller.due()
    assert "a" in controller.monitors.last_under_used
    quotas.cluster.store(type(quotas.stored("a"))).discard("d/a")
    controller.due()
    assert "a" not in controller.monitors.last_under_used


@pytest.mark.parametrize(("kind", "code"), [(TooManyRequests, 429), (NotFound, 404)])
async def test_a_pod_that_cannot_be_evicted_is_left_to_a_later_cycle(
    kind: type[TooManyRequests] | type[NotFound], code: int, caplog: pytest.LogCaptureFixture
) -> None:
    quotas, controller = made()
    quotas.pod("p", "a", cpu="2")
    give(quotas, cpu="1")
    await controller.revoke()
    quotas.clock.advance(11)
    quotas.error = kind("POST", "/x", code, kind.__name__, "boom", {}, None)
    await controller.revoke()
    assert "evicting" in caplog.text
    quotas.error = None
    quotas.clock.advance(11)
    await controller.revoke()
    assert quotas.evicted == ["p"]


@pytest.mark.parametrize(
    ("monitor", "runtime", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_controller_needs_monitoring_and_runtime_quotas(
    monitor: bool, runtime: bool, expected: bool
) -> None:
    args = ElasticQuotaArgs(monitor_all_quotas=monitor, enable_runtime_quota=runtime)
    assert QuotaOverUsedRevokeController.is_enabled(args) is expected
