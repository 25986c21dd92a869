import asyncio

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.cycle.queue import SchedulingQueue
from koordpy.scheduling.reservations import cluster_events as cluster_events
from koordpy.scheduling.reservations.cluster_events import ClusterEvents
from tests.unit.scheduling.worlds import NOW, node, pod, world


class Waiting:
    """A pod that did not fit."""

    def __init__(self, cluster: Cluster, *, placements_help: bool = False) -> None:
        self.queue = SchedulingQueue(FakeClock(NOW))
        self.queue.add(pod("waits"))
        item = self.queue.pop()
        assert item is not None
        self.queue.requeue(item, rejected=True, placements_help=placements_help)
        self.cluster_events = ClusterEvents(cluster, self.queue, lambda: None)

    @property
    def has_another_chance(self) -> bool:
        return self.queue.pool_of("uid-waits") != "unschedulable"


def test_a_new_node_moves_pods_back() -> None:
    cluster = world([node("n1")])
    waiting = Waiting(cluster)
    with waiting.cluster_events:
        assert not waiting.has_another_chance
        cluster.store(Node).apply(node("n2"))
    assert waiting.has_another_chance


@pytest.mark.parametrize(("changed", "chance"), [(node("n1", cpu="16"), True), (node("n1"), False)])
def test_a_node_moves_pods_back_when_it_changes_in_relevant_fields(changed: Node, chance: bool) -> None:
    cluster = world([node("n1")])
    waiting = Waiting(cluster)
    with waiting.cluster_events:
        cluster.store(Node).apply(changed)
    assert waiting.has_another_chance is chance


def test_a_deleted_pod_moves_pods_back() -> None:
    cluster = world([node("n1")], [pod("p", node_name="n1")])
    waiting = Waiting(cluster)
    with waiting.cluster_events:
        cluster.store(Pod).discard("default/p")
    assert waiting.has_another_chance


@pytest.mark.parametrize("helped", [True, False])
def test_a_placed_pod_moves_back_pods_that_depend_on_pods(helped: bool) -> None:
    cluster = world([node("n1")], [pod("p")])
    waiting = Waiting(cluster, placements_help=helped)
    with waiting.cluster_events:
        cluster.store(Pod).apply(pod("p", node_name="n1"))
    assert waiting.has_another_chance is helped


async def test_metrics_are_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_events, "GATHERED_SECONDS", 0.01)
    cluster = world([node("n1")])
    cluster.store(NodeMetric)
    waiting = Waiting(cluster)
    with waiting.cluster_events:
        cluster.store(NodeMetric).apply(NodeMetric())
        assert not waiting.has_another_chance
        await asyncio.sleep(0.05)
        assert waiting.has_another_chance


def test_nothing_is_followed_afterwards() -> None:
    cluster = world([node("n1")])
    waiting = Waiting(cluster)
    with waiting.cluster_events:
        pass
    cluster.store(Node).apply(node("n2"))
    assert not waiting.has_another_chance
