"""Deployments and ReplicaSets on the embedded control plane, on simulated time."""

import asyncio

from tests.integration.embedded.living import Living, condition, deployment, live, name_of, template


def sets(cluster: Living) -> dict[str, int]:
    """The wanted pods of each ReplicaSet by image."""
    return {
        item["spec"]["template"]["spec"]["containers"][0]["image"]: item["spec"]["replicas"]
        for item in cluster.all("replicasets")
    }


def is_done(cluster: Living, name: str = "web") -> bool:
    """What `kubectl rollout status` waits for."""
    item = cluster.one("deployments", name)
    status, replicas = item.get("status") or {}, item["spec"]["replicas"]
    return (
        status.get("observedGeneration") == item["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == replicas
        and status.get("replicas", 0) == replicas
        and status.get("availableReplicas", 0) == replicas
    )


def image(name: str) -> dict:
    return {"spec": {"template": template("web", name)}}


async def rolled_out(cluster: Living, name: str, replicas: int) -> None:
    await cluster.until(lambda: is_done(cluster) and sets(cluster).get(name) == replicas)


def test_a_deployment_gets_its_pods_with_the_names_of_kubernetes() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 3))
        await cluster.until(lambda: is_done(cluster))
        [rs] = cluster.all("replicasets")
        hashed = rs["metadata"]["labels"]["pod-template-hash"]
        assert name_of(rs) == f"web-{hashed}"
        assert rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        for item in cluster.pods():
            prefix, _, rest = name_of(item).rpartition("-")
            assert (prefix, len(rest)) == (name_of(rs), 5)
            assert item["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed}
            assert item["metadata"]["ownerReferences"][0]["uid"] == rs["metadata"]["uid"]
        item = cluster.one("deployments", "web")
        assert condition(item, "Available")["status"] == "True"
        assert condition(item, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert cluster.events("ScalingReplicaSet") == [f"Scaled up replica set {name_of(rs)} from 0 to 3"]
        assert len(cluster.events("SuccessfulCreate")) == 3

    live(story)


def test_scaling_changes_the_one_replica_set() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 2))
        await cluster.until(lambda: is_done(cluster))
        before = {name_of(item) for item in cluster.pods()}
        await cluster.patch("deployments", "web/scale", {"spec": {"replicas": 7}})
        await cluster.until(lambda: is_done(cluster) and len(cluster.running()) == 7)
        assert before < {name_of(item) for item in cluster.pods()}
        await cluster.patch("deployments", "web/scale", {"spec": {"replicas": 1}})
        await cluster.until(lambda: is_done(cluster) and len(cluster.pods()) == 1)
        assert len(cluster.all("replicasets")) == 1

    live(story)


def test_a_rolling_update_stays_within_its_limits() -> None:
    async def story(cluster: Living) -> None:
        limits = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
        await cluster.create("deployments", deployment("web", 8, strategy=limits))
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch("deployments", "web", image("web:2"))
        fewest, most = 8, 8
        while not is_done(cluster) or "web:2" not in sets(cluster):
            there = [item for item in cluster.pods() if "deletionTimestamp" not in item["metadata"]]
            fewest, most = min(fewest, len(cluster.running())), max(most, len(there))
            await asyncio.sleep(0.01)
        assert fewest == 7
        assert most == 10
        assert sets(cluster) == {"web:1": 0, "web:2": 8}

    live(story)


def test_recreate_ends_all_old_pods_before_it_starts_a_new_one() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 3, strategy={"type": "Recreate"}))
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch("deployments", "web", image("web:2"))
        both = False
        while not is_done(cluster) or "web:2" not in sets(cluster):
            images = {item["spec"]["containers"][0]["image"] for item in cluster.pods()}
            both = both or len(images) > 1
            await asyncio.sleep(0.01)
        assert not both
        assert len(cluster.running()) == 3

    live(story)


def test_going_back_reuses_the_old_replica_set_under_a_new_revision() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 2))
        await cluster.until(lambda: is_done(cluster))
        for name in ("web:2", "web:1"):
            await cluster.patch("deployments", "web", image(name))
            await rolled_out(cluster, name, 2)
        assert sets(cluster) == {"web:1": 2, "web:2": 0}
        first = next(item for item in cluster.all("replicasets") if item["spec"]["replicas"])
        notes = first["metadata"]["annotations"]
        assert notes["deployment.kubernetes.io/revision"] == "3"
        assert notes["deployment.kubernetes.io/revision-history"] == "1"
        item = cluster.one("deployments", "web")
        assert item["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"

    live(story)


def test_only_as_many_old_replica_sets_are_kept_as_the_history_allows() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 1, revisionHistoryLimit=1))
        for number in range(2, 6):
            await cluster.patch("deployments", "web", image(f"web:{number}"))
            await rolled_out(cluster, f"web:{number}", 1)
        await cluster.until(lambda: sets(cluster) == {"web:4": 0, "web:5": 1})

    live(story)


def test_a_paused_deployment_scales_and_does_not_roll_out() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 2))
        await cluster.until(lambda: is_done(cluster))
        await cluster.patch(
            "deployments", "web", {"spec": {"paused": True, "replicas": 4, **image("web:2")["spec"]}}
        )
        await cluster.until(lambda: len(cluster.running()) == 4)
        await asyncio.sleep(30)
        assert sets(cluster) == {"web:1": 4}
        assert condition(cluster.one("deployments", "web"), "Progressing")["reason"] == "DeploymentPaused"
        await cluster.patch("deployments", "web", {"spec": {"paused": None}})
        await cluster.until(lambda: sets(cluster) == {"web:1": 0, "web:2": 4})

    live(story)


def test_a_rollout_without_progress_exceeds_its_deadline() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 4, progressDeadlineSeconds=60))
        await cluster.until(lambda: is_done(cluster))
        broken = template("web", "web:2", {"kubelet.koordpy.dev/image": "missing"})
        await cluster.patch("deployments", "web", {"spec": {"template": broken}})
        began = cluster.clock.monotonic()

        def progress() -> dict:
            return condition(cluster.one("deployments", "web"), "Progressing")

        await cluster.until(lambda: progress().get("reason") == "ProgressDeadlineExceeded")
        assert 59 < cluster.clock.monotonic() - began < 75
        assert progress()["status"] == "False"
        assert len(cluster.running()) >= 3

    live(story)


def test_pods_that_go_are_replaced() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 4))
        await cluster.until(lambda: is_done(cluster))
        names = [name_of(item) for item in cluster.pods()]
        await cluster.delete("pods", names[0])
        await cluster.evict(names[1])
        await cluster.delete("pods", names[2], gracePeriodSeconds=0)
        await cluster.until(
            lambda: len(cluster.running()) == 4 and not set(names[:3]) & {name_of(p) for p in cluster.pods()}
        )
        assert len(cluster.pods()) == 4

    live(story)


def test_a_restart_of_the_controllers_makes_no_pod_twice() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 50))
        await cluster.until(lambda: len(cluster.pods()) >= 7)
        await cluster.stop_controllers()
        await cluster.start_controllers()
        most = 0
        while not is_done(cluster):
            most = max(most, len(cluster.pods()))
            await asyncio.sleep(0.01)
        assert most == 50
        assert not cluster.events("SuccessfulDelete")

    live(story)


def test_orphans_that_match_are_adopted_and_others_released() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 2))
        await cluster.until(lambda: is_done(cluster))
        released = name_of(cluster.pods()[0])
        hashed = cluster.pods()[0]["metadata"]["labels"]["pod-template-hash"]
        await cluster.patch("pods", released, {"metadata": {"labels": {"pod-template-hash": "other"}}})
        await cluster.until(lambda: len(cluster.pods()) == 3)
        await cluster.until(lambda: "ownerReferences" not in cluster.one("pods", released)["metadata"])
        await cluster.patch("pods", released, {"metadata": {"labels": {"pod-template-hash": hashed}}})
        await cluster.until(lambda: len(cluster.pods()) == 2 and is_done(cluster))

    live(story)


def test_a_deleted_deployment_takes_everything_with_it() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 3))
        await cluster.until(lambda: is_done(cluster))
        await cluster.delete("deployments", "web")
        await cluster.until(lambda: not cluster.all("replicasets") and not cluster.pods())

    live(story)


def test_orphaning_keeps_the_pods() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 3))
        await cluster.until(lambda: is_done(cluster))
        await cluster.delete("deployments", "web", propagationPolicy="Orphan")
        await cluster.until(lambda: cluster.one("deployments", "web") is None)
        await asyncio.sleep(30)
        assert len(cluster.running()) == 3
        assert len(cluster.all("replicasets")) == 1

    live(story)
