"""A derived state is created once, before its readers, and is closed with its cluster."""

from dataclasses import dataclass

import pytest

from koordpy.api.core import Node, Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeTable
from koordpy.cluster.shared_states import ConflictingParameters
from koordpy.testing.objects import node, pod


@dataclass(frozen=True)
class Options:
    label: str = "app"


class Names(DerivedState):
    """The names of pods, with a label."""

    def __init__(self, cluster: Cluster, options: Options = Options()) -> None:
        super().__init__(cluster)
        self.names: dict[str, str] = {}
        self.options = options
        self.follow(Pod, self._put, lambda _, new: self._put(new), self._remove)

    def _put(self, pod: Pod) -> None:
        self.names[pod.metadata.name] = pod.metadata.labels.get(self.options.label, "")

    def _remove(self, pod: Pod) -> None:
        del self.names[pod.metadata.name]

    def snapshot(self) -> Snapshot:
        return dict(self.names)


class Initials(DerivedState):
    """The first letters of names, of which a cluster has one set."""

    one_per_cluster = True

    def __init__(self, cluster: Cluster, width: int = 1) -> None:
        super().__init__(cluster)
        self.names, self.width = cluster.shared(Names), width
        self.seen: list[int] = []
        self.follow(Pod, self._count, lambda *_: None, self._count)

    def _count(self, _: Pod) -> None:
        self.seen.append(len(self.names.names))

    def snapshot(self) -> Snapshot:
        return {name[: self.width]: 1 for name in self.names.names}


class Broken(DerivedState):
    """Follows, then fails."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        cluster.shared(Names)
        self.follow(Pod, lambda _: None)
        raise ValueError("no")

    def snapshot(self) -> Snapshot:
        return {}


class Circular(DerivedState):
    """Needs itself."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        cluster.shared(Circular)

    def snapshot(self) -> Snapshot:
        return {}


def followers(cluster: Cluster) -> int:
    return sum(len(store._subscriptions) for store in cluster.stores)


def test_equal_parameters_share_one_state_and_others_have_their_own() -> None:
    cluster = Cluster()
    first = cluster.shared(Names, Options("app"))
    assert cluster.shared(Names, Options("app")) is first
    assert cluster.shared(Names, Options("zone")) is not first
    assert cluster.shared(Names, options=Options("zone")).options == Options("zone")
    assert Cluster().shared(Names, Options("app")) is not first


def test_a_unique_state_rejects_other_parameters() -> None:
    cluster = Cluster()
    assert cluster.shared(Initials, width=2) is cluster.shared(Initials, width=2)
    with pytest.raises(ConflictingParameters, match=r"Initials\(width=3\).* is Initials\(width=2\)"):
        cluster.shared(Initials, width=3)
    assert cluster.nodes is cluster.shared(NodeTable)


def test_what_is_known_already_is_replayed() -> None:
    cluster = Cluster()
    cluster.store(Pod).apply(pod("a", labels={"app": "x"}))
    assert cluster.shared(Names).snapshot() == {"a": "x"}


def test_a_state_is_current_before_other_handlers_run() -> None:
    cluster = Cluster()
    seen: list[list[str]] = []
    cluster.store(Pod).subscribe(lambda _: seen.append(list(cluster.shared(Initials).snapshot())))
    cluster.store(Pod).apply(pod("a"))
    cluster.store(Pod).apply(pod("b"))
    assert seen == [["a"], ["a", "b"]]


def test_a_state_is_current_before_those_that_build_on_it() -> None:
    cluster = Cluster()
    initials = cluster.shared(Initials)
    for name in ("a", "b"):
        cluster.store(Pod).apply(pod(name))
    cluster.store(Pod).discard("default/a")
    assert initials.seen == [1, 2, 1]
    assert [str(each) for each in cluster.states] == ["Names", "Initials"]


def test_a_handler_that_subscribes_during_a_change_gets_it_once() -> None:
    cluster = Cluster()
    counted: list[str] = []
    told: list[str] = []

    def first(_: Pod) -> None:
        told.append("first")
        if len(told) == 1:
            cluster.shared(Names)
            cluster.store(Pod).subscribe(lambda each: counted.append(each.metadata.name))

    cluster.store(Pod).subscribe(first)
    cluster.store(Pod).apply(pod("a"))
    assert (told, counted) == (["first"], ["a"])


def test_a_state_that_fails_to_be_made_follows_nothing_and_can_be_requested_again() -> None:
    cluster = Cluster()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cluster.shared(Broken)
    assert [str(each) for each in cluster.states] == ["Names"]
    assert followers(cluster) == 1


def test_a_state_that_needs_itself_is_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="Circular needs Circular"):
        Cluster().shared(Circular)


def test_a_closed_cluster_feeds_no_state_and_makes_none() -> None:
    cluster = Cluster()
    table, names = cluster.nodes, cluster.shared(Initials).names
    cluster.close()
    cluster.close()
    assert followers(cluster) == 0
    cluster.store(Node).apply(node("n"))
    cluster.store(Pod).apply(pod("a"))
    assert (len(table), names.names) == (0, {})
    with pytest.raises(RuntimeError, match="Names cannot be created: the cluster is closed"):
        cluster.shared(Names)
