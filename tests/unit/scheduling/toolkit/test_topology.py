"""Domains of nodes, and counts by domain."""

import numpy as np

from koordpy.api.core import Node
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.toolkit.topology import DomainCounts, Topology


def cluster_with(**zones: str | None) -> Cluster:
    cluster = Cluster()
    assert len(cluster.nodes) == 0
    for name, zone in zones.items():
        cluster.store(Node).apply(node(name, zone))
    return cluster


def node(name: str, zone: str | None) -> Node:
    labels = {} if zone is None else {"zone": zone}
    return decode(Node, {"metadata": {"name": name, "uid": name, "labels": labels}})


def test_nodes_with_one_value_have_one_number_and_those_without_the_label_have_none() -> None:
    cluster = cluster_with(n0="a", n1="b", n2="a", n3=None)
    topology = cluster.shared(Topology)
    nodes, _ = cluster.nodes.select(["n0", "n1", "n2", "n3"])
    numbers = topology.domains("zone").of(nodes).tolist()
    assert numbers[0] == numbers[2] != numbers[1]
    assert numbers[3] == 0
    assert topology.having_all(["zone"], nodes).tolist() == [True, True, True, False]
    by_row = topology.domains("zone").by_row(nodes)
    assert by_row[nodes.rows].tolist() == numbers
    assert np.count_nonzero(by_row) == 3


def test_a_node_that_changes_zones_has_the_number_of_the_new_one() -> None:
    cluster = cluster_with(n0="a", n1="b")
    domains = cluster.shared(Topology).domains("zone")
    nodes, _ = cluster.nodes.select(["n0", "n1"])
    first, second = domains.of(nodes).tolist()
    cluster.store(Node).apply(node("n0", "b"))
    assert domains.of(nodes).tolist() == [second, second]
    assert domains.of_node(node("n0", "a")) == first


def test_numbering_starts_anew_when_most_values_are_gone() -> None:
    cluster = cluster_with(n0="a")
    topology = cluster.shared(Topology)
    old = topology.domains("zone")
    for value in range(2 * cluster.nodes.capacity + 1):
        old.number(f"gone-{value}")
    new = topology.domains("zone")
    assert new is not old
    assert new.size < old.size
    assert topology.domains("zone") is new


def test_counts_are_added_by_domain_and_copies_are_apart() -> None:
    cluster = cluster_with(n0="a", n1="b", n2="a", n3=None)
    domains = cluster.shared(Topology).domains("zone")
    nodes, _ = cluster.nodes.select(["n0", "n1", "n2", "n3"])
    numbers = domains.of(nodes)
    counts = DomainCounts(domains)
    counts.add_all(numbers, np.array([1, 2, 3, 4]))
    assert counts.at(numbers).tolist() == [4, 2, 4, 0]
    copy = counts.clone()
    copy.add(int(numbers[0]), -4)
    copy.add(0, 9)
    assert copy.at(numbers).tolist() == [0, 2, 0, 0]
    assert counts.at(numbers).tolist() == [4, 2, 4, 0]


def test_a_value_that_is_new_since_counting_has_nothing_to_count() -> None:
    cluster = cluster_with(n0="a")
    domains = cluster.shared(Topology).domains("zone")
    counts = DomainCounts(domains)
    number = domains.number("new")
    assert counts.at(np.array([number])).tolist() == [0]
    counts.add(number, 2)
    assert counts.at(np.array([number])).tolist() == [2]
