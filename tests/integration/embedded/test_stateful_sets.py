"""StatefulSets on the embedded control plane, on simulated time."""

import asyncio
from typing import Any

from koordpy.embedded.apiserver.server import Fault
from tests.integration.embedded.living import Living, live, name_of, template


def stateful_set(replicas: int = 3, image: str = "db:1", **spec: Any) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", image),
            **spec,
        },
    }


def names(cluster: Living) -> list[str]:
    return [name_of(item) for item in cluster.running()]


def images(cluster: Living) -> dict[str, str]:
    return {name_of(item): item["spec"]["containers"][0]["image"] for item in cluster.running()}


def is_done(cluster: Living) -> bool:
    """What `kubectl rollout status` waits for."""
    item = cluster.one("statefulsets", "db")
    status = item["status"]
    return (
        status.get("observedGeneration") == item["metadata"]["generation"]
        and status.get("readyReplicas", 0) == item["spec"]["replicas"]
        and status.get("updateRevision") == status.get("currentRevision")
    )


def test_pods_are_created_in_order_each_when_the_one_before_is_ready() -> None:
    async def story(cluster: Living) -> None:
        slow = template("db", "db:1", {"kubelet.koordpy.dev/ready-after": "5s"})
        await cluster.create("statefulsets", stateful_set(template=slow))
        seen: list[tuple[int, int]] = []
        while not is_done(cluster):
            now = len(cluster.pods()), len(cluster.running())
            if not seen or seen[-1] != now:
                seen.append(now)
            await asyncio.sleep(0.05)
        assert all(there - ready <= 1 for there, ready in seen)
        assert names(cluster) == ["db-0", "db-1", "db-2"]
        first = cluster.one("pods", "db-0")
        labels = first["metadata"]["labels"]
        assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
        assert labels["apps.kubernetes.io/pod-index"] == "0"
        assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("db-0", "db")

    live(story)


def test_scaling_down_removes_the_highest_numbers_first() -> None:
    async def story(cluster: Living) -> None:
        slow = template("db", "db:1", {"kubelet.koordpy.dev/stop-after": "2s"})
        await cluster.create("statefulsets", stateful_set(4, template=slow))
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch("statefulsets", "db/scale", {"spec": {"replicas": 1}})
        gone: list[str] = []
        while len(cluster.pods()) > 1:
            there = [name_of(item) for item in cluster.pods()]
            gone += [name for name in ("db-3", "db-2", "db-1") if name not in there and name not in gone]
            await asyncio.sleep(0.01)
        assert gone[:2] == ["db-3", "db-2"]
        await cluster.until(lambda: names(cluster) == ["db-0"])

    live(story)


def test_parallel_sets_do_not_wait() -> None:
    async def story(cluster: Living) -> None:
        slow = template("db", "db:1", {"kubelet.koordpy.dev/ready-after": "60s"})
        await cluster.create("statefulsets", stateful_set(5, podManagementPolicy="Parallel", template=slow))
        await cluster.until(lambda: len(cluster.pods()) == 5, 5)

    live(story)


def test_an_update_goes_from_the_highest_number_down_to_the_partition() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("statefulsets", stateful_set(4))
        await cluster.until(lambda: is_done(cluster))
        rolling = {"rollingUpdate": {"partition": 2}}
        new = {"updateStrategy": rolling, "template": template("db", "db:2")}
        await cluster.patch("statefulsets", "db", {"spec": new})
        await cluster.until(lambda: sorted(images(cluster).values()) == ["db:1", "db:1", "db:2", "db:2"])
        await asyncio.sleep(20)
        assert images(cluster) == {"db-0": "db:1", "db-1": "db:1", "db-2": "db:2", "db-3": "db:2"}
        await cluster.delete("pods", "db-0")
        await asyncio.sleep(20)
        assert images(cluster)["db-0"] == "db:1"
        status = cluster.one("statefulsets", "db")["status"]
        assert status["currentRevision"] != status["updateRevision"]
        assert (status["updatedReplicas"], status["currentReplicas"]) == (2, 2)
        await cluster.patch(
            "statefulsets", "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        )
        await cluster.until(lambda: is_done(cluster) and set(images(cluster).values()) == {"db:2"})

    live(story)


def test_a_deleted_pod_comes_back_under_its_name_with_its_claim() -> None:
    async def story(cluster: Living) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await cluster.create("statefulsets", stateful_set(2, volumeClaimTemplates=[claim]))
        await cluster.until(lambda: is_done(cluster))
        uid = cluster.one("pods", "db-1")["metadata"]["uid"]
        await cluster.delete("pods", "db-1")
        await cluster.until(lambda: names(cluster) == ["db-0", "db-1"])
        again = cluster.one("pods", "db-1")
        assert again["metadata"]["uid"] != uid
        assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}} in again["spec"][
            "volumes"
        ]
        assert [name_of(item) for item in cluster.all("persistentvolumeclaims")] == ["data-db-0", "data-db-1"]

    live(story)


def test_an_update_replaces_every_pod_once() -> None:
    async def story(cluster: Living) -> None:
        slow = Fault(delay=0.2)  # the view of the controllers is behind their writes
        cluster.api.faults = lambda method, path: slow if method == "PATCH" else None
        await cluster.create("statefulsets", stateful_set(3))
        await cluster.until(lambda: is_done(cluster))
        seen = {item["metadata"]["uid"] for item in cluster.pods()}
        await cluster.patch("statefulsets", "db", {"spec": {"template": template("db", "db:2")}})
        while not (is_done(cluster) and set(images(cluster).values()) == {"db:2"}):
            seen |= {item["metadata"]["uid"] for item in cluster.pods()}
            await asyncio.sleep(0.01)
        assert len(seen) == 6

    live(story)
