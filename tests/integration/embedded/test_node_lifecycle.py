"""Nodes that fall silent, are tainted, cordoned, drained or deleted, on simulated time."""

import asyncio

import pytest

from koordpy.cluster.errors import TooManyRequests
from koordpy.embedded.apiserver.server import Fault
from tests.integration.embedded.living import Living, condition, deployment, live, name_of, pod

DOWN = {"metadata": {"annotations": {"kubelet.koordpy.dev/down": "true"}}}
UP = {"metadata": {"annotations": {"kubelet.koordpy.dev/down": None}}}


def taints(cluster: Living, node: str) -> set[tuple[str, str]]:
    found = cluster.one("nodes", node)["spec"].get("taints") or []
    return {(item["key"].rpartition("/")[2], item["effect"]) for item in found}


def test_a_silent_node_becomes_unknown_and_loses_its_pods_after_five_minutes() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 6))
        await cluster.until(lambda: len(cluster.running()) == 6)
        await cluster.patch("nodes", "a", DOWN)
        began = cluster.clock.monotonic()
        await cluster.until(lambda: ("unreachable", "NoExecute") in taints(cluster, "a"))
        assert 35 < cluster.clock.monotonic() - began < 60
        assert condition(cluster.one("nodes", "a"), "Ready")["status"] == "Unknown"
        lost = [item for item in cluster.pods() if item["spec"]["nodeName"] == "a"]
        assert lost
        await cluster.until(
            lambda: all(
                condition(cluster.one("pods", name_of(p)), "Ready")["status"] == "False" for p in lost
            ),
            5,
        )
        await cluster.until(lambda: len(cluster.running()) == 6, 400)
        assert 300 < cluster.clock.monotonic() - began < 400
        assert all("deletionTimestamp" in cluster.one("pods", name_of(p))["metadata"] for p in lost)
        await cluster.patch("nodes", "a", UP)
        await cluster.until(lambda: not taints(cluster, "a") and len(cluster.pods()) == 6)
        assert condition(cluster.one("nodes", "a"), "Ready")["status"] == "True"

    live(story)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("pods", pod("p"))
        await cluster.until(lambda: cluster.running())
        await cluster.patch("nodes", "a", DOWN)
        await cluster.until(lambda: taints(cluster, "a"))
        assert not cluster.running()
        await asyncio.sleep(60)
        await cluster.patch("nodes", "a", UP)
        await cluster.until(lambda: not taints(cluster, "a") and cluster.running())
        await asyncio.sleep(600)
        assert cluster.running()

    live(story, nodes=("a",))


def test_a_node_is_ready_again_though_its_lease_is_renewed_late() -> None:
    async def story(cluster: Living) -> None:
        await cluster.patch("nodes", "a", DOWN)
        await cluster.until(lambda: taints(cluster, "a"))
        late = Fault(delay=1.0)
        cluster.api.faults = lambda _, path: late if "/leases/" in path else None
        await cluster.patch("nodes", "a", UP)
        await cluster.until(lambda: not taints(cluster, "a"), 5)
        await asyncio.sleep(60)
        assert condition(cluster.one("nodes", "a"), "Ready")["status"] == "True"

    live(story, nodes=("a",))


def test_the_pods_of_a_deleted_node_are_deleted() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 6))
        await cluster.until(lambda: len(cluster.running()) == 6)
        await cluster.delete("nodes", "a")
        await cluster.until(
            lambda: (
                len(cluster.running()) == len(cluster.pods()) == 6
                and {item["spec"]["nodeName"] for item in cluster.pods()} == {"b", "c"}
            )
        )

    live(story)


def test_a_cordoned_node_is_tainted_until_it_is_uncordoned() -> None:
    async def story(cluster: Living) -> None:
        await cluster.patch("nodes", "a", {"spec": {"unschedulable": True}})
        await cluster.until(lambda: taints(cluster, "a") == {("unschedulable", "NoSchedule")})
        await cluster.patch("nodes", "a", {"spec": {"unschedulable": None}})
        await cluster.until(lambda: not taints(cluster, "a"))

    live(story)


def test_evictions_wait_for_the_disruption_budget() -> None:
    async def story(cluster: Living) -> None:
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await cluster.create("poddisruptionbudgets", budget)
        web = deployment("web", 3)
        web["spec"]["template"]["metadata"]["annotations"] = {"kubelet.koordpy.dev/start-after": "10s"}
        await cluster.create("deployments", web)

        def allowed() -> int:
            found: int = cluster.one("poddisruptionbudgets", "web")["status"].get("disruptionsAllowed", 0)
            return found

        await cluster.until(lambda: allowed() == 1)
        first, second, _ = (name_of(item) for item in cluster.pods())
        await cluster.evict(first)
        with pytest.raises(TooManyRequests):
            await cluster.evict(second)
        await cluster.until(lambda: allowed() == 1 and len(cluster.running()) == 3)
        await cluster.evict(second)

    live(story)
