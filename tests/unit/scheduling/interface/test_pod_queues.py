"""`handle.queue`: requests of plugins reach every queue with pending pods of the profile."""

import re

import pytest

from koordpy.api.core import Node, Pod
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import ClusterEvent

from ..worlds import node, pod, world


class Queue:
    def __init__(self) -> None:
        self.activated: list[str] = []
        self.events: list[ClusterEvent] = []

    def activate(self, pod: Pod) -> None:
        self.activated.append(pod.metadata.name)

    def move_all(self, event: ClusterEvent) -> None:
        self.events.append(event)


def test_every_queue_of_a_profile_takes_part_and_those_of_others_do_not() -> None:
    handle = Handle(world([]))
    queues = Queue(), Queue()
    for queue in queues:
        handle.queue.join(queue)
    handle.queue.activate(pod(name) for name in ("a", "b"))
    handle.activate(pod("c"))
    event = ClusterEvent(Node, new=node("n1"))
    handle.queue.move_all(event)
    handle.sibling().queue.move_all(event)
    for queue in queues:
        assert queue.activated == ["a", "b", "c"]
        assert queue.events == [event]


def test_an_event_says_what_changed() -> None:
    message = "an event of Node: expected the object before, after, or both"
    with pytest.raises(ValueError, match=re.escape(message)):
        ClusterEvent(Node)
    with pytest.raises(ValueError, match="an event of Node: got Pod, expected Node before and after"):
        ClusterEvent(Node, new=pod("p"))


def test_what_a_pod_gives_back_is_an_event_of_a_pod_that_is_gone() -> None:
    handle, queue, given = Handle(world([])), Queue(), pod("p")
    handle.queue.join(queue)
    handle.gave_back(given)
    [event] = queue.events
    assert (event.old, event.new, event.gone_pod) == (given, None, given.metadata.uid)
    assert ClusterEvent(Pod, given, given).gone_pod == ClusterEvent(Node, node("n")).gone_pod == ""
