"""The eviction subresource: deletion that respects PodDisruptionBudgets."""

from typing import Any

import pytest

from tests.integration.apiserver.objects import labelled, pod, running
from tests.integration.apiserver.rest import Collection, Document, Rest, ok, refused


def eviction(name: str, **options: Any) -> Document:
    document: Document = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return document | ({"deleteOptions": options} if options else {})


@pytest.fixture
def budgets(rest: Rest, namespace: str) -> Collection:
    return rest.collection("poddisruptionbudgets", namespace)


def budget(budgets: Collection, allowed: int, name: str = "budget", **spec: Any) -> Document:
    """A budget over app=web whose status allows so many disruptions (no controller writes it here)."""
    selector = {"matchLabels": {"app": "web"}}
    spec = {"minAvailable": 1, "selector": selector, **spec}
    created = ok(budgets.create({"metadata": {"name": name}, "spec": spec}), 201)
    healthy = 1 + allowed
    created["status"] = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": 1,
        "expectedPods": healthy,
        "observedGeneration": created["metadata"]["generation"],
    }
    return ok(budgets.replace(created, sub="status"), 200)


def web(name: str) -> Document:
    return labelled(pod(name), app="web")


def test_pod_without_a_budget_is_given_its_grace_period(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, web("a"))
    status = ok(pods.post("a", "eviction", eviction("a")), 201)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert ok(pods.get("a"))["metadata"]["deletionGracePeriodSeconds"] == 30


def test_pod_that_never_ran_is_evicted_at_once(pods: Collection, budgets: Collection) -> None:
    budget(budgets, 0)
    ok(pods.create(web("a")), 201)
    ok(pods.post("a", "eviction", eviction("a")), 201)
    refused(pods.get("a"), 404, "NotFound")


def test_budget_that_allows_none_refuses(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    budget(budgets, 0)
    status = refused(pods.post("a", "eviction", eviction("a")), 429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = status["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert "The disruption budget budget needs 1 healthy pods and has 1 currently" in cause["message"]
    assert "deletionTimestamp" not in ok(pods.get("a"))["metadata"]


def test_budget_is_spent(rest: Rest, pods: Collection, budgets: Collection, namespace: str) -> None:
    for name in ("a", "b"):
        running(rest, namespace, web(name))
    budget(budgets, 1)
    ok(pods.post("a", "eviction", eviction("a")), 201)
    status = ok(budgets.get("budget"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {"a"}
    refused(pods.post("b", "eviction", eviction("b")), 429, "TooManyRequests")


def test_budget_of_other_pods_does_not_matter(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, labelled(pod("a"), app="db"))
    budget(budgets, 0)
    ok(pods.post("a", "eviction", eviction("a")), 201)


def test_two_budgets_over_one_pod_are_an_error(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    budget(budgets, 1, "one")
    budget(budgets, 1, "two")
    response = pods.post("a", "eviction", eviction("a"))
    assert response.status_code == 500
    assert "more than one PodDisruptionBudget" in response.json()["message"]


def test_budget_whose_status_lags_refuses(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    budget(budgets, 1)
    ok(budgets.patch("budget", {"spec": {"minAvailable": 2}}))
    refused(pods.post("a", "eviction", eviction("a")), 429, "TooManyRequests")


def test_unready_pod_is_evicted_when_the_application_is_healthy(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    ok(pods.patch("a", unready, sub="status"))
    budget(budgets, 0)
    ok(pods.post("a", "eviction", eviction("a")), 201)


@pytest.mark.parametrize(("healthy", "desired"), [(0, 1), (2, 3), (0, 0), (1, 0)])
def test_unready_pod_is_kept_when_the_application_is_unhealthy(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str, healthy: int, desired: int
) -> None:
    running(rest, namespace, web("a"))
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    ok(pods.patch("a", unready, sub="status"))
    created = budget(budgets, 0)
    status = created["status"] | {"currentHealthy": healthy, "desiredHealthy": desired}
    ok(budgets.replace(created | {"status": status}, sub="status"), 200)
    refused(pods.post("a", "eviction", eviction("a")), 429, "TooManyRequests")
    assert "deletionTimestamp" not in ok(pods.get("a"))["metadata"]


def test_unready_pod_is_always_evicted_where_the_budget_says_so(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    ok(pods.patch("a", unready, sub="status"))
    created = budget(budgets, 0, unhealthyPodEvictionPolicy="AlwaysAllow")
    short = created["status"] | {"currentHealthy": 0}
    ok(budgets.replace(created | {"status": short}, sub="status"), 200)
    ok(pods.post("a", "eviction", eviction("a")), 201)


def test_options_of_the_eviction_are_those_of_the_deletion(
    rest: Rest, pods: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    other = {"uid": "11111111-2222-3333-4444-555555555555"}
    refused(pods.post("a", "eviction", eviction("a", preconditions=other)), 409, "Conflict")
    ok(pods.post("a", "eviction", eviction("a", gracePeriodSeconds=0)), 201)
    refused(pods.get("a"), 404, "NotFound")


def test_dry_run_evicts_nothing_and_spends_nothing(
    rest: Rest, pods: Collection, budgets: Collection, namespace: str
) -> None:
    running(rest, namespace, web("a"))
    budget(budgets, 1)
    ok(pods.post("a", "eviction", eviction("a"), dryRun="All"), 201)
    assert "deletionTimestamp" not in ok(pods.get("a"))["metadata"]
    assert ok(budgets.get("budget"))["status"]["disruptionsAllowed"] == 1


def test_missing_pod_is_404(pods: Collection) -> None:
    refused(pods.post("missing", "eviction", eviction("missing")), 404, "NotFound")


def test_name_of_the_eviction_must_be_the_pods(pods: Collection) -> None:
    ok(pods.create(web("a")), 201)
    refused(pods.post("a", "eviction", eviction("b")), 400, "BadRequest")
