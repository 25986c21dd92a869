from koordpy.api.core import Node
from koordpy.cluster.cluster import Cluster
from koordpy.testing.objects import node


def test_names_are_found_by_position_whatever_their_order() -> None:
    cluster = Cluster()
    for name in "abcd":
        cluster.store(Node).apply(node(name))
    some, _ = cluster.nodes.select(["d", "a", "c"])
    assert list(some.positions_of({"c", "b", "d"}).items()) == [(0, "d"), (2, "c")]
    assert list(some.positions_of({"c", "b", "d", "e"}).items()) == [(0, "d"), (2, "c")]
    assert some.positions_of({"b", "e"}) == some.positions_of(set()) == {}
    cluster.store(Node).discard("c")
    assert some.positions_of({"c", "a"}) == {1: "a"}
