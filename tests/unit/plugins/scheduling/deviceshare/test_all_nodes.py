"""Filter and Score of all nodes at once answer as they do node by node."""

import json
from random import Random
from typing import Any

import numpy as np
import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.node_info import each

from .allocation.test_arrays import KINDS, LABELS, functions
from .clusters import PERCENT, Profile, hint, pod
from .nodes import card, device, gpu

FUNCTION = {"vfSelector": {"matchLabels": {"type": "a"}}}


def jointly(**hints: Any) -> dict[str, dict[str, str]]:
    """The annotations of a pod whose GPUs and cards are near each other."""
    joint = {"scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes":["gpu","rdma"]}'}
    return {"annotations": hint(**hints)["annotations"] | joint}


PODS = {
    "whole": pod("a", {PERCENT: "100"}),
    "two": pod("b", {PERCENT: "200"}),
    "part": pod("c", {PERCENT: "40"}),
    "memory": pod("d", {"koordinator.sh/gpu-memory": "6Gi"}),
    "card": pod("e", {"koordinator.sh/rdma": "30"}),
    "both": pod("f", {PERCENT: "100", "koordinator.sh/rdma": "100"}),
    "scoped": pod("g", {PERCENT: "200"}, **hint(gpu={"requiredTopologyScope": "PCIe"})),
    "selected": pod("h", {PERCENT: "100"}, **hint(gpu={"selector": {"matchLabels": {"a": "b"}}})),
    "function": pod(
        "j", {"koordinator.sh/rdma": "1"}, **hint(rdma={"vfSelector": {"matchLabels": {"type": "a"}}})
    ),
    "joint": pod("k", {PERCENT: "200", "koordinator.sh/rdma": "1"}, **jointly()),
    "joint function": pod(
        "l", {PERCENT: "100", "koordinator.sh/rdma": "1"}, **jointly(rdma={"vfSelector": {}})
    ),
    "joint selected": pod(
        "m",
        {PERCENT: "100", "koordinator.sh/rdma": "1"},
        **jointly(gpu={"selector": {"matchLabels": {"a": "b"}}}, rdma={"allocateStrategy": "ApplyForAll"}),
    ),
    "isolated": pod("i", {PERCENT: "50"}, labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"}),
}


def random_cluster(rng: Random) -> Cluster:
    cluster = Cluster()
    for place in range(12):
        name = f"n{place}"
        labels = rng.choice(({}, {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}))
        labels |= {"node.koordinator.sh/gpu-vendor": "v", "node.koordinator.sh/gpu-model": rng.choice("ab")}
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": name, "uid": name, "labels": labels}}))
        if place == 0:
            continue
        gpus = [
            gpu(minor, health=rng.random() > 0.2, labels=rng.choice(LABELS))
            for minor in range(rng.randrange(5))
        ]
        cards = [
            card(minor, vfGroups=[functions(rng, minor, kind) for kind in rng.choice(KINDS)])
            for minor in range(rng.randrange(3))
        ]
        listed = [*gpus, *cards]
        cluster.store(Device).apply(device(listed, name=name))
        for minor in range(len(gpus)):
            if rng.random() < 0.5:
                share = rng.choice(("30", "70", "100"))
                held = f'{{"koordinator.sh/gpu-core":"{share}","koordinator.sh/gpu-memory-ratio":"{share}"}}'
                text = f'{{"gpu":[{{"minor":{minor},"resources":{held}}}]}}'
                meta = {"name": f"p{minor}", "namespace": name, "uid": f"{name}-{minor}"}
                meta["annotations"] = {"scheduling.koordinator.sh/device-allocated": text}  # type: ignore[assignment]
                cluster.store(Pod).apply(decode(Pod, {"metadata": meta, "spec": {"nodeName": name}}))
        if cards and rng.random() < 0.6:
            taken = [{"minor": 0, "busID": f"0{kind}0"} for kind in "ab" if rng.random() < 0.7]
            uses: list[dict[str, Any]] = [
                {"minor": 0, "resources": {"koordinator.sh/rdma": "1"}, "extension": {"vfs": taken}}
            ]
            annotations = {"scheduling.koordinator.sh/device-allocated": json.dumps({"rdma": uses})}
            owner = {"name": "r", "namespace": name, "uid": f"{name}-r", "annotations": annotations}
            cluster.store(Pod).apply(decode(Pod, {"metadata": owner, "spec": {"nodeName": name}}))
    return cluster


@pytest.mark.parametrize("kind", PODS)
@pytest.mark.parametrize("seed", range(8))
def test_all_nodes_at_once_answer_as_one_by_one(kind: str, seed: int) -> None:
    cluster, incoming = random_cluster(Random(seed)), PODS[kind]
    profile = Profile(
        cluster,
        gpuShareUnsupportedModels=[{"vendor": "v", "model": "a"}] if seed % 3 == 0 else [],
        scoringStrategy={
            "type": "MostAllocated",
            "resources": [
                {"name": "koordinator.sh/gpu-memory-ratio", "weight": 1},
                {"name": "koordinator.sh/rdma", "weight": 2},
            ],
        },
    )
    state, status = profile.prepared(incoming)
    assert status.is_success
    nodes = cluster.nodes.all()
    if seed % 2:  # a pod is removed in a what-if
        victim = next((each for each in cluster.store(Pod)), None)
        if victim is not None:
            info = next(each_ for each_ in each(nodes) if each_.name == victim.spec.node_name)
            profile.plugin.remove_pod(state, incoming, victim, info)
    verdict = profile.plugin.filter_nodes(state, incoming, nodes)
    alone = [profile.plugin.filter(state, incoming, node) for node in each(nodes)]
    assert [verdict.status(index) for index in range(len(nodes))] == alone
    left = nodes.subset(np.array([status.is_success for status in alone]))
    scores = profile.plugin.score_nodes(state, incoming, left)
    assert scores.tolist() == [profile.plugin.score(state, incoming, node) for node in each(left)]
