"""Pods without CPUs of their own on nodes that impose nothing: what all pairs and nodes get at once."""

import json
from typing import Any

import numpy as np
import pytest

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import PASS, Status, Verdict
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource
from koordpy_plugins.scheduling.nodenumaresource.reservations.reusable import restored_in
from koordpy_plugins.scheduling.nodenumaresource.state.columns import CPUColumns

from .numa_world import bound_pod, cluster_of, profile, spec


def relabel(cluster: Cluster, name: str, labels: dict[str, str], annotations: dict[str, str]) -> None:
    node = cluster.store(Node).get("", name)
    assert node is not None
    document: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"allocatable": dict(node.status.allocatable)},
    }
    cluster.store(Node).apply(decode(Node, document))


def reservation(cluster: Cluster, name: str, node: str, cpus: str = "") -> ReservationInfo:
    """A Reservation on a node that holds some CPUs."""
    status = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})} if cpus else {}
    document: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "annotations": status},
        "spec": {
            "template": {
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
            },
            "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "ttl": "0s",
        },
        "status": {"phase": "Available", "nodeName": node, "allocatable": {"cpu": "2"}},
    }
    made = decode(Reservation, document)
    cluster.store(Reservation).apply(made)
    return ReservationInfo(made)


def stage(*names: str) -> tuple[Cluster, NodeNUMAResource, CycleState, Any]:
    cluster = cluster_of(*names)
    made, plugin = profile(cluster)
    return cluster, plugin, made.new_state(), made


@pytest.mark.parametrize(
    ("labels", "annotations", "is_plain"),
    [
        ({}, {}, True),
        ({extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"}, {}, False),
        ({extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "BestEffort"}, {}, False),
        ({extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "Odd"}, {}, False),
        ({}, {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: '{"cpu":1}'}, True),
        ({}, {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: '{"cpu":1.5}'}, False),
        ({}, {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: "{"}, False),
    ],
)
def test_a_node_is_plain_if_it_imposes_nothing(
    labels: dict[str, str], annotations: dict[str, str], is_plain: bool
) -> None:
    cluster, _, _, _ = stage("a")
    columns = cluster.shared(CPUColumns)
    assert columns.of(cluster.nodes.all()).flag("is_plain").tolist() == [True]
    relabel(cluster, "a", labels, annotations)
    assert columns.of(cluster.nodes.all()).flag("is_plain").tolist() == [is_plain]


def test_rows_are_worked_off_in_parts() -> None:
    cluster, _, _, _ = stage("a", "b", "c")
    columns = cluster.shared(CPUColumns)
    relabel(cluster, "b", {}, {})
    assert columns.refresh_some(1)
    assert columns.refresh_some(1)
    assert not columns.refresh_some(1)
    relabel(cluster, "b", {}, {})
    assert not columns.refresh_some(0), "a node whose labels and annotations stay is not computed again"
    relabel(cluster, "b", {extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"}, {})
    assert columns.refresh_some(0)


@pytest.mark.parametrize("qos", ["LS", "LSR"])
def test_nominations_of_all_pairs_are_those_of_each(qos: str) -> None:
    cluster, plugin, state, made = stage("a", "b", "c")
    relabel(cluster, "b", {extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"}, {})
    infos = [reservation(cluster, f"r-{name}", name, "0-1") for name in "abc"]
    # Half a CPU cannot be bound, which the second node requires.
    pod = bound_pod("p", "500m" if qos == "LS" else "2", qos=qos, annotations=spec())
    nodes = cluster.nodes.all()
    made.run_pre_filter(state, pod, nodes)
    pairs = ReservationPairs(nodes, np.arange(3), [pod] * 3, infos)
    verdict: Verdict = plugin.filter_nominate_reservations(state, pairs)
    expected: list[Status] = [
        plugin.filter_nominate_reservation(state, pod, info, name)
        for info, name in zip(infos, nodes.names, strict=True)
    ]
    assert [verdict.status(at) for at in range(3)] == expected
    assert any(not status.is_success for status in expected) == (qos == "LS")


def test_only_nodes_whose_reservations_hold_cpus_are_restored() -> None:
    cluster, plugin, state, _ = stage("a", "b", "c")
    matched = [reservation(cluster, "r-a", "a"), reservation(cluster, "r-b", "b", "0-1")]
    other = reservation(cluster, "r-c", "c", "2-3")
    pod, nodes = bound_pod("p"), cluster.nodes.all()
    pairs = (
        ReservationPairs(nodes, np.array([0, 1]), [pod] * 2, matched),
        ReservationPairs(nodes, np.array([2]), [pod], [other]),
    )
    plugin.pre_restore_reservation(state, pod)
    assert plugin.restore_reservations(state, pod, *pairs) == ({}, Status())
    restored = {nodes.names[at]: each for at, each in restored_in(state).among(nodes).items()}
    assert sorted(restored) == ["b", "c"]
    assert restored["b"].matched["r-b"].remained_cpus == {0, 1}
    assert restored["c"].unmatched["r-c"].allocatable_cpus == {2, 3}
    assert not restored["c"].matched


def test_what_reservations_hold_is_not_even_looked_up_for_pods_that_need_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, plugin, state, _ = stage("a", "b")
    used = [reservation(cluster, "r-a", "a", "0-1"), reservation(cluster, "r-b", "b", "2-3")]
    nodes = cluster.nodes.all()
    looked_up: list[str] = []

    def find(node_name: str, *_: object) -> None:
        looked_up.append(node_name)

    monkeypatch.setattr(plugin, "_restored", find)
    for pod, expected in ((bound_pod("p", qos="LS"), []), (bound_pod("q"), ["a", "b"])):
        nothing = ReservationPairs(nodes, np.array([], np.int64), [], [])
        plugin.pre_restore_reservation(state, pod)
        plugin.restore_reservations(
            state, pod, nothing, ReservationPairs(nodes, np.array([0, 1]), [pod] * 2, used)
        )
        _, status = plugin.pre_filter(state, pod, nodes)
        assert status.is_success
        plugin.filter_nodes(state, pod, nodes)
        assert looked_up == expected


def test_a_spread_verdict_refuses_the_nodes_at_its_positions() -> None:
    refused = Verdict.of([Status.unschedulable("full"), Status.unschedulable("odd")])
    spread = refused.spread(np.array([1, 3]), 4)
    assert [spread.status(at).reasons for at in range(4)] == [(), ("full",), (), ("odd",)]
    one_reason = Verdict.reject(np.array([True, False]), "full").spread(np.array([0, 2]), 3)
    assert [one_reason.status(at).is_success for at in range(3)] == [False, True, True]
    assert PASS.spread(np.array([1]), 2) is PASS
