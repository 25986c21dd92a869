"""DaemonSets on the embedded control plane, on simulated time."""

import asyncio
from typing import Any

from tests.integration.embedded.living import Living, live, name_of, template


def daemon_set(name: str = "agent", image: str = "agent:1", **spec: Any) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            **spec,
        },
    }


def nodes_of(cluster: Living) -> list[str]:
    return sorted(item["spec"]["nodeName"] for item in cluster.running())


def is_done(cluster: Living) -> bool:
    """What `kubectl rollout status` waits for."""
    item = cluster.one("daemonsets", "agent")
    status = item["status"]
    desired = status["desiredNumberScheduled"]
    return (
        status.get("observedGeneration") == item["metadata"]["generation"]
        and desired > 0
        and status.get("updatedNumberScheduled", 0) == desired
        and status.get("numberAvailable", 0) == desired
    )


def test_every_node_gets_one_pod_and_new_nodes_too() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("daemonsets", daemon_set())
        await cluster.until(lambda: is_done(cluster))
        assert nodes_of(cluster) == ["a", "b", "c"]
        await cluster.add_node("d")
        await cluster.until(lambda: nodes_of(cluster) == ["a", "b", "c", "d"])
        await cluster.delete("nodes", "a")
        await cluster.until(lambda: nodes_of(cluster) == ["b", "c", "d"] and len(cluster.pods()) == 3)

    live(story)


def test_selectors_and_taints_decide_on_which_nodes() -> None:
    async def story(cluster: Living) -> None:
        await cluster.patch("nodes", "a", {"metadata": {"labels": {"disk": "ssd"}}})
        await cluster.patch("nodes", "b", {"metadata": {"labels": {"disk": "ssd"}}})
        document = daemon_set()
        document["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
        await cluster.create("daemonsets", document)
        await cluster.until(lambda: nodes_of(cluster) == ["a", "b"])
        await cluster.patch("nodes", "c", {"metadata": {"labels": {"disk": "ssd"}}})
        await cluster.until(lambda: nodes_of(cluster) == ["a", "b", "c"])
        no_execute = {"key": "broken", "effect": "NoExecute"}
        await cluster.patch("nodes", "b", {"spec": {"taints": [no_execute]}})
        await cluster.until(lambda: nodes_of(cluster) == ["a", "c"])

    live(story)


def test_cordoned_nodes_keep_and_get_daemon_pods() -> None:
    async def story(cluster: Living) -> None:
        await cluster.patch("nodes", "a", {"spec": {"unschedulable": True}})
        await cluster.create("daemonsets", daemon_set())
        await cluster.until(lambda: nodes_of(cluster) == ["a", "b", "c"])

    live(story)


def test_a_rolling_update_replaces_one_pod_after_the_other() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("daemonsets", daemon_set())
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch("daemonsets", "agent", {"spec": {"template": template("agent", "agent:2")}})
        fewest = 3
        while not is_done(cluster):
            fewest = min(fewest, len(cluster.running()))
            await asyncio.sleep(0.01)
        assert fewest == 2
        assert {item["spec"]["containers"][0]["image"] for item in cluster.pods()} == {"agent:2"}
        revisions = cluster.all("controllerrevisions")
        assert sorted(item["revision"] for item in revisions) == [1, 2]
        hashes = {item["metadata"]["labels"]["controller-revision-hash"] for item in cluster.pods()}
        newest = max(revisions, key=lambda item: item["revision"])
        assert hashes == {newest["metadata"]["labels"]["controller-revision-hash"]}
        assert newest["data"]["spec"]["template"]["$patch"] == "replace"

    live(story)


def test_with_on_delete_pods_are_replaced_only_when_they_are_deleted() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("daemonsets", daemon_set(updateStrategy={"type": "OnDelete"}))
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch("daemonsets", "agent", {"spec": {"template": template("agent", "agent:2")}})
        await asyncio.sleep(30)
        images = [item["spec"]["containers"][0]["image"] for item in cluster.pods()]
        assert images == ["agent:1"] * 3
        await cluster.delete("pods", name_of(cluster.pods()[0]))
        await cluster.until(lambda: len(cluster.running()) == 3)
        images = [item["spec"]["containers"][0]["image"] for item in cluster.pods()]
        assert sorted(images) == ["agent:1", "agent:1", "agent:2"]

    live(story)


def test_a_surge_starts_the_new_pod_before_the_old_one_ends() -> None:
    async def story(cluster: Living) -> None:
        surge = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await cluster.create("daemonsets", daemon_set(updateStrategy=surge))
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch("daemonsets", "agent", {"spec": {"template": template("agent", "agent:2")}})
        fewest, most = 3, 3
        while not is_done(cluster) or len(cluster.pods()) > 3:
            fewest, most = min(fewest, len(cluster.running())), max(most, len(cluster.pods()))
            await asyncio.sleep(0.01)
        assert (fewest, most) == (3, 4)

    live(story)
