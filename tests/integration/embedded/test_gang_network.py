"""The examples of Koordinator's manuals of placement by network topology and of preemption by gangs."""

import asyncio
import json
from typing import Any

import pytest

from .ganging import GangCluster, play
from .living import condition, name_of

SPINES: dict[str, dict[str, tuple[str, ...]]] = {
    "spine-0": {"block-0": ("node-0", "node-1", "node-2"), "block-1": ("node-3", "node-4")},
    "spine-1": {"block-2": ("node-5", "node-6"), "block-3": ("node-7", "node-8")},
    "spine-2": {"block-4": ("node-9", "node-10", "node-11")},
}
LAYERS = [
    {"topologyLayer": "SpineLayer", "labelKey": ["network.topology.nvidia.com/spine"]},
    {
        "topologyLayer": "BlockLayer",
        "parentTopologyLayer": "SpineLayer",
        "labelKey": ["network.topology.nvidia.com/block"],
    },
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]
WHOLE_NODE = {"cpu": "8", "memory": "32Gi"}
AWARE: dict[str, Any] = {
    "awareNetworkTopology": True,
    "enablePreemption": True,
    "extender": {"networkTopologyManager": True},
}


def gather(**layers: str) -> dict[str, Any]:
    return {
        "network-topology-spec": {
            "gatherStrategy": [{"layer": layer, "strategy": how} for layer, how in layers.items()]
        }
    }


async def build(cluster: GangCluster) -> None:
    await cluster.create(
        "clusternetworktopologies",
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "ClusterNetworkTopology",
            "metadata": {"name": "default"},
            "spec": {"networkTopologySpec": LAYERS},
        },
    )
    for spine, blocks in SPINES.items():
        for block, names in blocks.items():
            for name in names:
                labels = {
                    "network.topology.nvidia.com/spine": spine,
                    "network.topology.nvidia.com/block": block,
                }
                await cluster.add_machine(name, labels, **WHOLE_NODE)
    await cluster.until(
        lambda: (cluster.one("clusternetworktopologies", "default").get("status") or {}).get("detailStatus")
    )


async def add_job(cluster: GangCluster, name: str, layers: dict[str, Any], **spec: Any) -> None:
    await cluster.pod_group(name, 4, layers, scheduleTimeoutSeconds=300)
    for number in range(4):
        await cluster.pod(
            f"{name}-{number}",
            group=name,
            notes={"network-topology-index": str(number)},
            requests=WHOLE_NODE,
            **spec,
        )


def test_the_network_is_described_in_the_status() -> None:
    async def story(cluster: GangCluster) -> None:
        await build(cluster)

        def described() -> bool:
            status = cluster.one("clusternetworktopologies", "default")["status"]["detailStatus"]
            return bool(status[0].get("nodeNum") == 12)

        await cluster.until(described)
        status = cluster.one("clusternetworktopologies", "default")["status"]["detailStatus"]
        assert [(each["topologyInfo"]["topologyName"], each["nodeNum"]) for each in status] == [
            ("", 12), ("spine-0", 5), ("block-0", 3), ("block-1", 2), ("spine-1", 4), ("block-2", 2),
            ("block-3", 2), ("spine-2", 3), ("block-4", 3),
        ]  # fmt: skip
        assert status[0]["childTopologyNames"] == ["spine-0", "spine-1", "spine-2"]
        assert "childTopologyNames" not in status[2]

    play(story, **AWARE)


@pytest.mark.parametrize("gated", [False, True])
def test_a_gang_takes_the_spine_that_it_fills(gated: bool) -> None:
    async def story(cluster: GangCluster) -> None:
        await build(cluster)
        await add_job(cluster, "job", gather(BlockLayer="PreferGather", SpineLayer="PreferGather"))
        await cluster.until(lambda: len(cluster.bound("job")) == 4)
        assert cluster.nodes_of() == {f"job-{n}": f"node-{n + 5}" for n in range(4)}

    play(story, gated=gated, **AWARE)


def test_a_gang_evicts_within_the_spine_that_it_must_share() -> None:
    async def story(cluster: GangCluster) -> None:
        await cluster.priority_classes(high=1_000_000, low=1000)
        await build(cluster)
        for number in (0, 1, 5):
            await cluster.pod(
                f"low-{number}",
                requests=WHOLE_NODE,
                nodeName=f"node-{number}",
                priorityClassName="low",
                terminationGracePeriodSeconds=30,
                stop_after="20s",
            )
        await cluster.until(lambda: len(cluster.running()) == 3)
        await add_job(cluster, "hp", gather(SpineLayer="MustGather"), priorityClassName="high")

        def nominated() -> dict[str, str]:
            found = {name: cluster.one("pods", name)["status"].get("nominatedNodeName") for name in names}
            return found if all(found.values()) else {}

        victims: dict[str, str] = {}

        def seen() -> dict[str, str]:
            """What was said to the pods that are evicted."""
            for pod in cluster.pods():
                target = condition(pod, "DisruptionTarget")
                if target:
                    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
                    victims[name_of(pod)] = target["message"]
            return victims

        names = [f"hp-{number}" for number in range(4)]
        await cluster.until(lambda: nominated() and seen())
        assert nominated() == {f"hp-{n}": f"node-{n + 5}" for n in range(4)}
        await cluster.until(lambda: len(cluster.bound("hp")) == 4)
        assert {name: node for name, node in cluster.nodes_of().items() if name in names} == {
            f"hp-{n}": f"node-{n + 5}" for n in range(4)
        }
        assert set(cluster.bound("low")) == {"low-0", "low-1"}
        told = "default-scheduler: preempting to accommodate higher priority pods, preemptor: default/hp, "
        assert victims == {"low-5": told + "triggerPod: default/hp-0"}

    play(story, **AWARE)


@pytest.mark.parametrize("joint", [False, True])
def test_a_gang_evicts_one_pod_of_each_node(joint: bool) -> None:
    """The example of preemption by jobs: two nodes, each taken by a pod of lower priority."""

    async def story(cluster: GangCluster) -> None:
        await cluster.priority_classes(high=1_000_000, low=1000)
        for name in ("n1", "n2"):
            await cluster.add_machine(name, cpu="4", memory="16Gi")
        for number in (1, 2):
            await cluster.pod(
                f"lp-{number}",
                requests={"cpu": "4", "memory": "40Mi"},
                priorityClassName="low",
                terminationGracePeriodSeconds=5,
            )
        await cluster.until(lambda: len(cluster.running()) == 2)
        await cluster.pod_group("hp", 2, scheduleTimeoutSeconds=300)
        await cluster.members("hp", 2, requests={"cpu": "3"}, priorityClassName="high")
        await cluster.until(lambda: len(cluster.bound("hp")) == 2, 600)
        assert cluster.bound("lp") == []

    play(story, enablePreemption=True, preemptionJointFit=joint)


def test_gangs_of_a_group_share_a_spine() -> None:
    async def story(cluster: GangCluster) -> None:
        await build(cluster)
        notes = {"groups": ["default/master", "default/worker"], **gather(SpineLayer="MustGather")}
        for name, size in (("master", 1), ("worker", 3)):
            await cluster.pod_group(name, size, notes)
            await cluster.members(name, size, requests=WHOLE_NODE)
        await cluster.until(lambda: len(cluster.bound()) == 4)
        assert set(cluster.nodes_of().values()) == {f"node-{n}" for n in range(5, 9)}

    play(story, **AWARE)


def test_pods_go_to_blocks_in_multiples() -> None:
    async def story(cluster: GangCluster) -> None:
        await build(cluster)
        rule = {"layer": "BlockLayer", "strategy": "PreferGather", "podCountMultiple": 2}
        spec = {"network-topology-spec": json.dumps({"gatherStrategy": [rule]})}
        await cluster.pod_group("g", 6, spec)
        await cluster.members("g", 6, requests=WHOLE_NODE)
        await cluster.until(lambda: len(cluster.bound()) == 6)
        found = set(cluster.nodes_of().values())
        for blocks in SPINES.values():
            for names in blocks.values():
                assert len(found.intersection(names)) % 2 == 0, found

    play(story, **AWARE)


def test_a_gang_that_no_spine_has_room_for_waits_whole() -> None:
    async def story(cluster: GangCluster) -> None:
        await build(cluster)
        await cluster.pod_group("g", 6, gather(SpineLayer="MustGather"))
        await cluster.members("g", 6, requests=WHOLE_NODE)
        await asyncio.sleep(60)
        assert cluster.bound() == []
        assert "no candidate topology nodes can accommodate job, desiredOfferSlot: 6" in cluster.told("g-0")
        labels = {
            "network.topology.nvidia.com/spine": "spine-0", "network.topology.nvidia.com/block": "block-1"
        }  # fmt: skip
        await cluster.add_machine("node-12", labels, **WHOLE_NODE)
        await cluster.until(lambda: len(cluster.bound()) == 6)

    play(story, **AWARE)
