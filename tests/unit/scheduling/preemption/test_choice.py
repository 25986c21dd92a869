"""Which candidate costs least, and which pods would violate a budget."""

from datetime import UTC, datetime, timedelta

import pytest

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.meta import format_time
from koordpy.api.scheme import decode
from koordpy.scheduling.interface import Victims
from koordpy.scheduling.preemption.budgets import Budgets
from koordpy.scheduling.preemption.choice import least_loss
from koordpy.scheduling.preemption.importance import by_importance

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def pod(name: str, priority: int | None = None, minutes: int | None = 0, **labels: str) -> Pod:
    """A pod that was started so many minutes ago (None: not yet)."""
    status = {} if minutes is None else {"startTime": format_time(NOW - timedelta(minutes=minutes))}
    return decode(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
            "spec": {} if priority is None else {"priority": priority},
            "status": status,
        },
    )


def names(pods: list[Pod]) -> str:
    return " ".join(pod.metadata.name for pod in pods)


def test_importance_is_priority_then_age() -> None:
    pods = [pod("new", 5, None), pod("young", 5, 1), pod("none"), pod("high", 9), pod("old", 5, 60)]
    assert names(by_importance(pods, NOW)) == "high old young new none"


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Victims([pod("a", 100)], 0), Victims([pod("b", 1)], 1)),
        (Victims([pod("a", 1), pod("b", 1), pod("c", 1)]), Victims([pod("d", 2)])),
        (Victims([pod("a", 2), pod("b", 0)]), Victims([pod("c", 2), pod("d", 1)])),
        (Victims([pod("a", -5)]), Victims([pod("b", -5), pod("c", -5)])),
        (Victims([pod("a", 1, 5), pod("b", 0, 90)]), Victims([pod("c", 1, 6), pod("d", 0, 0)])),
        (Victims([pod("a", 1, None)]), Victims([pod("b", 1, 1)])),
    ],
    ids=["budgets", "highest", "sum", "number", "latest start", "not started"],
)
def test_the_candidate_with_the_lowest_cost_is_chosen(better: Victims, worse: Victims) -> None:
    assert least_loss({"worse": worse, "better": better}, NOW) == "better"


def test_the_first_of_equal_candidates_is_chosen() -> None:
    assert least_loss({"n2": Victims([pod("a")]), "n1": Victims([pod("b")])}, NOW) == "n2"
    assert least_loss({}, NOW) == ""


def budget(
    allowed: int, selector: object, disrupted: tuple[str, ...] = (), namespace: str = "default"
) -> Budgets:
    document = {
        "metadata": {"name": "b", "namespace": namespace},
        "spec": {} if selector is None else {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }
    return Budgets([decode(PodDisruptionBudget, document)])


APPS = {"matchLabels": {"app": "a"}}


def violating(budgets: Budgets, *pods: Pod) -> str:
    found, others = budgets.split(pods)
    assert len(found) + len(others) == len(pods)
    return names(found)


def test_what_a_budget_allows_is_used_up_in_order() -> None:
    pods = [pod(name, app="a") for name in ("p1", "p2", "p3")]
    assert violating(budget(2, APPS), *pods) == "p3"
    assert violating(budget(0, APPS), *pods) == "p1 p2 p3"
    assert violating(budget(2, APPS), *pods) == "p3"


def test_disruptions_already_counted_cost_nothing() -> None:
    assert violating(budget(0, APPS, ("p1",)), pod("p1", app="a"), pod("p2", app="a")) == "p2"


@pytest.mark.parametrize(
    "budgets",
    [
        budget(0, None),
        budget(0, {}),
        budget(0, {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]}),
        budget(0, {"matchLabels": {"app": "b"}}),
        budget(0, APPS, namespace="other"),
        Budgets([]),
    ],
    ids=["no selector", "empty selector", "bad selector", "other labels", "other namespace", "no budget"],
)
def test_some_budgets_cover_no_pod(budgets: Budgets) -> None:
    assert violating(budgets, pod("p", app="a")) == ""


def test_a_pod_without_labels_is_in_no_budget() -> None:
    wants_none = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    assert violating(budget(0, wants_none), pod("bare"), pod("other", tier="x")) == "other"


def test_every_budget_of_a_pod_counts() -> None:
    def of(name: str, label: str, allowed: int) -> PodDisruptionBudget:
        return decode(
            PodDisruptionBudget,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"selector": {"matchLabels": {label: "x"}}},
                "status": {"disruptionsAllowed": allowed},
            },
        )

    budgets = Budgets([of("one", "a", 1), of("two", "b", 5)])
    assert violating(budgets, pod("p1", a="x", b="x"), pod("p2", b="x"), pod("p3", a="x", b="x")) == "p3"
