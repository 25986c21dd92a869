"""Objects in old words, from the API server and in extender calls: koordpy reads them in the present ones."""

from pathlib import Path
from typing import Any

from koordpy.api.core import Node, Pod
from tests.integration.service.stage import serving, until

PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: &plugins
    multiPoint: {enabled: [{name: NodeResourcesFit}]}
- schedulerName: other
  plugins: *plugins
"""

OLD, NEW = "koordinator.sh/batch-cpu", "kubernetes.io/batch-cpu"


async def test_old_names_in_nodes_pods_and_calls_are_the_present_ones(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(PROFILES)
    async with serving(tmp_path, extender={"schedulerConfig": str(profiles)}) as stage:
        cluster = stage.process.cluster
        for name, amount in (("small", "1k"), ("large", "2k")):
            await stage.add_node(name)
            status = {"status": {"allocatable": {OLD: amount}, "capacity": {OLD: amount}}}
            await stage.client.patch_status(Node, "", name, status)
        await until(lambda: all(NEW in node.status.allocatable for node in cluster.store(Node)))

        pod: dict[str, Any] = await stage.add_pod("p")
        pod["metadata"]["resourceVersion"] = ""  # not the version that is in the store
        pod["spec"]["containers"][0]["resources"]["requests"] = {OLD: "1500"}
        pod["metadata"]["labels"] = {"scheduling.koordinator.sh/scheduler-name": "other"}
        answer = await stage.filter(pod, "small", "large")
        assert answer["NodeNames"] == ["large"]
        assert answer["FailedAndUnresolvableNodes"] == {"small": f"Insufficient {NEW}"}
        extender = stage.extender
        assert next(iter(extender.decisions.recent())).profile == "other"


async def test_reserved_parts_of_a_node_are_no_room_for_pods(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(PROFILES)
    async with serving(tmp_path, extender={"schedulerConfig": str(profiles)}) as stage:
        annotation = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"3"}}'}
        await stage.add_node("n", cpu="4", annotations=annotation)
        cluster = stage.process.cluster
        await until(lambda: len(cluster.store(Node)) == 1)
        assert (await stage.filter(await stage.add_pod("large", "1500m"), "n"))["NodeNames"] == []
        assert (await stage.filter(await stage.add_pod("small", "500m"), "n"))["NodeNames"] == ["n"]
        live = await stage.client.get(Node, "", "n")
        assert live.status.allocatable["cpu"] == "4"


async def test_a_gate_turns_a_class_into_a_priority(tmp_path: Path) -> None:
    async with serving(tmp_path, featureGates={"PriorityTransformer": True}) as stage:
        await stage.add_pod("p", labels={"koordinator.sh/priority-class": "koord-batch"})
        known = stage.process.cluster.store(Pod).get("default", "p")
        assert known is not None
        assert known.spec.priority == 5500
