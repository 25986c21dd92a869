"""The shared trees of quotas: what events leave is what a rebuild finds."""

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.cluster.cluster import Cluster
from koordpy_plugins.scheduling.elasticquota.state.trees import QuotaTrees

from ..quota_world import World


def rebuilt(world: World) -> QuotaTrees:
    """Return the trees of a process that has just started."""
    cluster = Cluster(world.clock)
    trees = QuotaTrees(cluster, world.trees.settings)
    for kind in (ElasticQuota, Node, Pod):
        for each in world.cluster.store(kind):
            cluster.store(kind).apply(each)
    return trees


@pytest.mark.parametrize("gone", ["deleted", "without the resource", "with none of it"])
def test_a_resource_that_no_node_has_any_more_is_as_if_it_had_never_been_there(gone: str) -> None:
    world = World()
    world.node("n1", 10)
    world.node("n2", 0)
    world.quota("a", least=4)
    world.pod("p1", "a", 2)
    assert str((world.trees.refresh_runtime("a") or {})["cpu"]) == "2"
    if gone == "deleted":
        world.cluster.store(Node).discard("n1")
    elif gone == "with none of it":
        world.node("n1", 0)
    else:
        world.put(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"memory": "1Gi"}}})
    expected = rebuilt(world)
    assert world.trees.refresh_runtime("a") == expected.refresh_runtime("a")
    assert world.trees.snapshot() == expected.snapshot()
