"""Affinities of nodes, one by one and many at once."""

import numpy as np
import pytest

from koordpy.api.core import Node
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY, AffinityStore

from ...worlds import node, world


def cluster_of(count: int = 3) -> tuple[Cluster, NodeSet]:
    cluster = world([node(f"n{at}") for at in range(count)])
    return cluster, cluster.nodes.all()


def stored(nodes: NodeSet, *masks: int) -> AffinityStore:
    store = AffinityStore()
    store.put_all(nodes, np.array(masks), np.arange(len(masks)))
    return store


def test_affinities_of_many_nodes_are_found_by_name() -> None:
    _, nodes = cluster_of()
    store = stored(nodes, 1, ANY, 3)
    assert store["n0"] == NUMATopologyHint(1, preferred=True, score=0)
    assert store["n1"] == NUMATopologyHint(None, preferred=True, score=1)
    assert dict(store) == {name: store[name] for name in ("n0", "n1", "n2")}
    assert "n3" not in store
    assert len(store) == 3


def test_arrays_show_what_was_stored_in_either_way() -> None:
    _, nodes = cluster_of()
    store = stored(nodes.pick(np.array([0, 2])), 1, 2)
    store["n1"] = NUMATopologyHint(3)
    store["n2"] = NUMATopologyHint(None)
    known, masks = store.masks(nodes)
    assert known.tolist() == [True, True, True]
    assert masks.tolist() == [1, 3, ANY]


def test_arrays_have_numa_node_63() -> None:
    _, nodes = cluster_of()
    store = stored(nodes.pick(np.array([0, 1])), 1, 2)
    store["n2"] = NUMATopologyHint(1 << 63 | 1)
    _, masks = store.masks(nodes)
    assert [[node for node in range(64) if mask >> node & 1] for mask in masks.tolist()] == [
        [0],
        [1],
        [0, 63],
    ]


def test_a_removed_affinity_is_gone_until_it_is_stored_again() -> None:
    _, nodes = cluster_of()
    store = stored(nodes, 1, 2, 3)
    assert store.pop("n1", None) is not None
    assert store.pop("n1", None) is None
    assert store.masks(nodes)[0].tolist() == [True, False, True]
    assert list(store) == ["n0", "n2"]
    store.put_all(nodes.pick(np.array([1])), np.array([1]), np.array([0]))
    assert store.masks(nodes)[1].tolist() == [1, 1, 3]
    with pytest.raises(KeyError):
        del store["n9"]


def test_an_affinity_stays_with_a_changed_node_and_goes_with_a_deleted_one() -> None:
    cluster, nodes = cluster_of()
    store = stored(nodes, 1, 2, 3)
    cluster.store(Node).apply(node("n0", cpu="9"))
    cluster.store(Node).discard("n1")
    cluster.store(Node).apply(node("other"))
    now = cluster.nodes.all()
    found = dict(zip(now.names, store.masks(now)[0].tolist(), strict=True))
    assert found == {"n0": True, "other": False, "n2": True}
    assert store.get("n0") is not None
    assert store.get("other") is None


def test_an_empty_store_is_false() -> None:
    _, nodes = cluster_of()
    store = AffinityStore()
    assert not store
    assert store.masks(nodes)[1].tolist() == [ANY] * 3
    store["n0"] = NUMATopologyHint(1)
    assert store
