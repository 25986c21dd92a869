"""Evictions against PodDisruptionBudgets, as the eviction API counts them."""

from typing import Any

import pytest

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.pods.disruptions import Disruptions
from koordpy.api.scheme import decode


def pod(name: str, *, phase: str = "Running", ready: bool = True, **metadata: Any) -> Pod:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    meta = {"namespace": "a", "name": name, "labels": {"app": "web"}, **metadata}
    return decode(Pod, {"metadata": meta, "status": {"phase": phase, "conditions": conditions}})


def budget(
    allowed: int, name: str = "b", healthy: int = 2, desired: int = 2, **spec: Any
) -> PodDisruptionBudget:
    return decode(
        PodDisruptionBudget,
        {
            "metadata": {"namespace": "a", "name": name},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
            "status": {
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
            },
        },
    )


def test_each_eviction_uses_up_the_budget() -> None:
    found = Disruptions([budget(2)])
    assert [found.refusal(pod(name)) is None for name in "xyz"] == [True, True, False]
    assert found.refusal(pod("z")) == (
        "PodDisruptionBudget b allows 2 disruptions now, and needs 2 healthy pods (2 are)"
    )


def test_other_namespaces_and_labels_are_not_bound() -> None:
    found = Disruptions([budget(0)])
    assert found.refusal(pod("x", namespace="b")) is None
    assert found.refusal(pod("x", labels={"app": "db"})) is None


@pytest.mark.parametrize(
    "free",
    [pod("x", phase="Pending"), pod("x", phase="Failed"), pod("x", deletionTimestamp="2026-01-01T00:00:00Z")],
)
def test_pods_that_do_not_run_are_evicted_anyway(free: Pod) -> None:
    assert Disruptions([budget(0)]).refusal(free) is None


@pytest.mark.parametrize(
    ("healthy", "policy", "refused"), [(2, "", False), (1, "", True), (1, "AlwaysAllow", False)]
)
def test_an_unready_pod_goes_if_the_others_are_healthy_or_the_policy_allows_it(
    healthy: int, policy: str, refused: bool
) -> None:
    found = Disruptions([budget(0, healthy=healthy, unhealthyPodEvictionPolicy=policy)])
    assert (found.refusal(pod("x", ready=False)) is not None) is refused


def test_two_budgets_refuse_every_eviction() -> None:
    found = Disruptions([budget(5), budget(5, "c")])
    assert found.refusal(pod("x")) == (
        "more than one PodDisruptionBudget selects it, which evictions do not support: b, c"
    )


def test_a_budget_without_a_selector_binds_nothing_and_an_empty_one_all() -> None:
    assert Disruptions([budget(0, selector=None)]).refusal(pod("x")) is None
    assert Disruptions([budget(0, selector={})]).refusal(pod("x")) is not None
