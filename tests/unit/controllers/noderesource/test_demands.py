"""Demands on nodes: kept while nothing changes, as those of a new process afterwards."""

import random
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.quantity import QuantityError
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.noderesource.demands import Demands

NODES = ("a", "b", "")


def pod(name: str, node: str, cpu: str, phase: str = "Running", **labels: str) -> Pod:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    if node:
        spec["nodeName"] = node
    meta = {"name": name, "namespace": "d", "labels": labels}
    return decode(Pod, {"metadata": meta, "spec": spec, "status": {"phase": phase}})


def metric(node: str, **used: str) -> NodeMetric:
    pods = [
        {"namespace": "d", "name": name, "podUsage": {"resources": {"cpu": cpu}}}
        for name, cpu in used.items()
    ]
    return decode(NodeMetric, {"metadata": {"name": node}, "status": {"podsMetric": pods}})


def following(cluster: Cluster) -> Demands:
    demands = Demands(cluster)
    demands.follow()
    return demands


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_demands_are_those_of_a_new_process(seed: int) -> None:
    rng, cluster = random.Random(seed), Cluster()
    demands = following(cluster)
    pods, metrics = cluster.store(Pod), cluster.store(NodeMetric)
    for _ in range(60):
        name = rng.choice("pqrs")
        if rng.random() < 0.2:
            pods.discard(f"d/{name}")
        elif rng.random() < 0.3:
            used = {each: f"{rng.randrange(3000)}m" for each in rng.sample("pqrs", 2)}
            metrics.put(metric(rng.choice(NODES[:2]), **used))
        else:
            qos = {"koordinator.sh/qosClass": rng.choice(["LS", "LSE", "BE"])}
            phase = rng.choice(["Running", "Pending", "Succeeded"])
            pods.put(pod(name, rng.choice(NODES), f"{rng.randrange(4000)}m", phase, **qos))
        new, unfollowed = following(cluster), Demands(cluster)
        for node in NODES[:2]:
            assert demands.of(node).high_used == new.of(node).high_used == unfollowed.of(node).high_used
            assert demands.of(node).high_request == new.of(node).high_request
            assert demands.of(node).prod_request == new.of(node).prod_request


def test_a_demand_is_kept_until_something_of_its_node_changes() -> None:
    cluster = Cluster()
    demands = following(cluster)
    cluster.store(Pod).put(pod("p", "a", "1"))
    known = demands.of("a")
    cluster.store(Pod).put(pod("q", "b", "1"))
    cluster.store(Pod).put(pod("p", "a", "1", other="label"))
    assert demands.of("a") is known
    cluster.store(Pod).put(pod("p", "a", "2"))
    assert demands.of("a") is not known


def test_a_pod_that_cannot_be_read_is_an_error_until_it_is_gone() -> None:
    cluster = Cluster()
    demands = following(cluster)
    cluster.store(Pod).put(pod("p", "a", "1"))
    cluster.store(Pod).put(pod("bad", "a", "much"))
    with pytest.raises(QuantityError):
        demands.of("a")
    cluster.store(Pod).put(pod("q", "a", "1"))
    with pytest.raises(QuantityError):
        demands.of("a")
    cluster.store(Pod).discard("d/bad")
    assert demands.of("a").high_request.cpu == 2 * 10**9


def test_a_pod_that_can_be_read_again_counts() -> None:
    cluster = Cluster()
    demands = following(cluster)
    cluster.store(Pod).put(pod("p", "a", "much"))
    with pytest.raises(QuantityError):
        demands.of("a")
    cluster.store(Pod).put(pod("p", "a", "3"))
    assert demands.of("a").high_request.cpu == 3 * 10**9
