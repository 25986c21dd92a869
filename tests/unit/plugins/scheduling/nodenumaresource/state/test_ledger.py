import json
import logging

import msgspec
import pytest

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.quantity import parse
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.testing.objects import NOW, node, pod
from koordpy_plugins.scheduling.nodenumaresource.state.ledger import CPULedger
from koordpy_plugins.scheduling.nodenumaresource.state.pod_allocation import (
    MOST_CPUS,
    MOST_NUMA_NODES,
    PodAllocation,
)

from ..machines import detail, nrt

CPUS = detail(1, 2, 2, 2)


class World:
    """A cluster whose node n0 has eight CPUs on two NUMA nodes, and its ledger."""

    def __init__(self, topology=CPUS):
        self.cluster = Cluster(FakeClock(NOW))
        self.ledger = self.cluster.shared(CPULedger)
        self.put(node("n0"))
        if topology is not None:
            self.put(nrt(cpus=topology, zones={"node-0": {"cpu": "4"}, "node-1": {"cpu": "4"}}))

    def put(self, obj):
        self.cluster.store(type(obj)).apply(obj)
        return obj

    def gone(self, type_, key):
        self.cluster.store(type_).discard(key)

    @property
    def state(self):
        """What is allocated on n0, whose topology is valid."""
        found = self.ledger.node("n0")
        assert found is not None
        return found

    @property
    def held(self):
        """The CPUs of pods on n0 by UID."""
        state = self.ledger.node("n0")
        return {} if state is None else {uid: set(each.cpus) for uid, each in state.pods.items()}


def status(cpus="", **zones):
    nodes = [{"node": int(zone[1:]), "resources": amounts} for zone, amounts in zones.items()]
    return {
        extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus, "numaNodeResources": nodes}),
    }


def bound(name="p", annotations=None, on="n0", version="1", phase="", **options):
    if phase:
        options["status"] = {"phase": phase}
    made = pod(name, on=on, annotations=annotations or {}, **options)
    meta = msgspec.structs.replace(made.metadata, resource_version=version, uid=f"uid-{name}")
    return msgspec.structs.replace(made, metadata=meta)


def reserved(uid="uid-p", cpus=(0,)):
    return PodAllocation(uid, "default", uid, frozenset(cpus))


def reservation(phase="Available", annotations=None, template=None, on="n0"):
    return decode(
        Reservation,
        {
            "metadata": {"name": "r", "uid": "uid-r", "annotations": annotations or {}},
            "spec": {
                "ttl": "1h",
                "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}],
                "template": {"metadata": {"annotations": template or {}}, "spec": {"containers": []}},
            },
            "status": {"phase": phase, "nodeName": on},
        },
    )


def test_a_bound_pod_has_what_its_annotation_says():
    world = World()
    spec = {extension.ANNOTATION_RESOURCE_SPEC: '{"preferredCPUExclusivePolicy":"PCPULevel"}'}
    world.put(bound(annotations={**status("0-1", n1={"cpu": "2"}), **spec}))
    state = world.state
    assert world.held == {"uid-p": {0, 1}}
    assert state.allocated_cpus[0] == (1, "PCPULevel")
    assert state.allocated_resources == {1: {"cpu": parse("2")}}


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        status(""),
        status("0-x"),
        {extension.ANNOTATION_RESOURCE_STATUS: "["},
        {**status("0"), extension.ANNOTATION_RESOURCE_SPEC: "["},
        status(",".join(str(number) for number in range(2 * MOST_CPUS))),
        status(**{f"n{number}": {} for number in range(MOST_NUMA_NODES + 1)}),
        status(n0={"cpu": "much"}),
    ],
)
def test_a_pod_whose_annotations_say_nothing_that_can_be_read_has_nothing(annotations):
    world = World()
    world.put(bound(annotations=status("3")))
    world.put(bound(annotations=annotations, version="2"))
    assert world.held == {}


def test_annotations_that_cannot_be_read_are_logged_a_few_times(caplog):
    world = World()
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            world.put(bound(f"p{number}", {extension.ANNOTATION_RESOURCE_STATUS: "["}))
    assert 0 < len(caplog.records) < 50
    assert "p0" in caplog.text


@pytest.mark.parametrize("event", ["ended", "deleted", "unbound", "moved"])
def test_a_pod_that_leaves_its_node_has_nothing_there(event):
    world = World()
    world.put(bound(annotations=status("3")))
    match event:
        case "ended":
            world.put(bound(annotations=status("3"), phase="Succeeded", version="2"))
        case "deleted":
            world.gone(Pod, "default/p")
        case "unbound":
            world.put(bound(annotations=status("3"), on="", version="2"))
        case "moved":
            world.put(bound(annotations=status("3"), on="n1", version="2"))
    assert world.held == {}


def test_pods_count_as_soon_as_the_topology_of_their_node_is_valid():
    world = World(None)
    world.put(bound(annotations=status("0,7", n0={"cpu": "1"})))
    assert world.ledger.node("n0") is None
    world.put(nrt(cpus="{}"))
    assert world.ledger.node("n0") is None
    world.put(nrt(cpus=CPUS))
    assert world.held == {"uid-p": {0, 7}}
    assert world.state.numa_status(2) == ("shared", "shared")


def test_pods_count_on_the_numa_nodes_of_a_changed_topology():
    world = World()
    world.put(bound(annotations=status("4")))
    assert world.state.numa_status(2) == ("idle", "single")
    world.put(nrt(cpus=detail(1, 1, 4, 2)))
    assert world.state.numa_status(2) == ("single", "idle")


def test_allocations_return_with_the_topology():
    world = World()
    world.put(bound(annotations=status("4")))
    world.gone(NodeResourceTopology, "n0")
    assert world.ledger.node("n0") is None
    assert world.ledger.options("n0").cpu_topology is None
    world.put(bound("q", status("5")))
    world.put(nrt(cpus=CPUS))
    assert world.held == {"uid-p": {4}, "uid-q": {5}}


def test_traces_of_former_allocations_go_with_the_node():
    world = World()
    world.put(bound(annotations=status(n0={"cpu": "1"})))
    world.put(bound("q", annotations=status(n1={"cpu": "1"})))
    world.gone(Pod, "default/p")
    assert world.state.allocated_resources.keys() == {0, 1}
    world.gone(Node, "n0")
    assert world.state.allocated_resources.keys() == {1}


@pytest.mark.parametrize("on", ["reservation", "template", "both"])
def test_a_reservation_has_what_its_annotations_or_its_templates_say(on):
    world = World()
    own = status("1") if on != "template" else None
    world.put(reservation(annotations=own, template=status("2") if on != "reservation" else None))
    assert world.held == {"uid-r": {2} if on == "template" else {1}}
    assert world.state.pods["uid-r"].name == "uid-r"


@pytest.mark.parametrize("event", ["Succeeded", "Failed", "Pending", "deleted", "moved"])
def test_a_reservation_that_ends_has_nothing(event):
    world = World()
    world.put(reservation(annotations=status("1")))
    if event == "deleted":
        world.gone(Reservation, "r")
    elif event == "moved":
        world.put(reservation(annotations=status("1"), on="n1"))
    else:
        world.put(reservation(event, status("1")))
    assert world.held == {}


def test_what_is_reserved_counts_until_it_is_released():
    world = World()
    world.ledger.reserve("n0", reserved())
    assert (world.held, set(world.ledger.unconfirmed())) == ({"uid-p": {0}}, {"uid-p"})
    world.ledger.release("n1", "uid-p")
    assert world.held == {"uid-p": {0}}
    world.ledger.release("n0", "uid-p")
    assert (world.held, set(world.ledger.unconfirmed())) == ({}, set())


def test_a_pod_that_waits_keeps_what_is_reserved_for_it():
    world = World()
    world.ledger.reserve("n0", reserved())
    world.put(bound(on=""))
    assert world.held == {"uid-p": {0}}


def test_a_bound_pod_confirms_what_is_reserved_and_is_not_released():
    world = World()
    world.ledger.reserve("n0", reserved())
    world.put(bound(annotations=status("0")))
    assert set(world.ledger.unconfirmed()) == set()
    world.ledger.release("n0", "uid-p")
    assert world.held == {"uid-p": {0}}
    world.ledger.reserve("n0", reserved(cpus=(5,)))
    assert world.held == {"uid-p": {0}}
    assert set(world.ledger.unconfirmed()) == set()


def test_a_pod_that_is_bound_elsewhere_has_nothing_where_it_was_reserved():
    world = World()
    world.ledger.reserve("n0", reserved())
    world.put(bound(annotations=status("0"), on="n1"))
    assert world.held == {}
    assert set(world.ledger.unconfirmed()) == set()


def test_a_pod_is_reserved_on_one_node():
    world = World()
    world.ledger.reserve("n0", reserved())
    world.ledger.reserve("n1", reserved())
    assert world.held == {}
    world.ledger.release("n0", "uid-p")
    assert set(world.ledger.unconfirmed()) == {"uid-p"}


@pytest.mark.parametrize("event", ["deleted", "failed"])
def test_what_is_reserved_for_a_pod_goes_with_it(event):
    world = World()
    world.put(bound(on=""))
    world.ledger.reserve("n0", reserved())
    if event == "deleted":
        world.gone(Pod, "default/p")
    else:
        world.put(bound(on="", phase="Failed", version="2"))
    assert (world.held, set(world.ledger.unconfirmed())) == ({}, set())


def test_a_reservation_confirms_what_is_reserved_for_it():
    world = World()
    world.ledger.reserve("n0", reserved("uid-r", (1,)))
    world.put(reservation("Pending", on=""))
    assert world.held == {"uid-r": {1}}
    world.put(reservation(annotations=status("1")))
    assert set(world.ledger.unconfirmed()) == set()
    assert world.held == {"uid-r": {1}}


def test_changed_nodes_are_reported_and_known_ones_first():
    world = World()
    changed: list[str] = []
    end = world.ledger.on_change(changed.append)
    assert changed == ["n0"]
    world.put(bound(annotations=status("0")))
    world.put(bound(annotations=status("0"), labels={"a": "b"}, version="2"))
    assert changed == ["n0", "n0"]
    world.put(nrt(cpus=CPUS))
    world.gone(Pod, "default/p")
    assert len(changed) == 4
    end()
    world.put(bound(annotations=status("0")))
    assert len(changed) == 4


def test_pods_with_equal_annotations_share_what_was_read():
    world = World()
    for name in ("p", "q"):
        world.put(bound(name, status("0", n0={"cpu": "1"})))
    first, second = world.state.pods.values()
    assert first.numa_resources is second.numa_resources
    assert first.cpus is second.cpus


def test_no_two_states_of_a_node_have_the_same_version():
    world = World(topology=None)
    ledger = world.ledger
    versions = [ledger.version("n0")]
    for change in (
        lambda: world.put(nrt(cpus=CPUS, zones={"node-0": {"cpu": "4"}})),
        lambda: world.put(bound(annotations=status("0-1"))),
        lambda: ledger.reserve("n0", PodAllocation("q", "default", "q", frozenset({2}), "", {})),
        lambda: ledger.release("n0", "q"),
        lambda: world.gone(Pod, "default/p"),
        lambda: world.put(nrt(cpus=CPUS, zones={"node-0": {"cpu": "3"}})),
    ):
        change()
        versions.append(ledger.version("n0"))
    assert versions[0] == 0
    assert len(set(versions)) == len(versions)
    world.gone(NodeResourceTopology, "n0")
    assert ledger.version("n0") == 0
    world.put(nrt(cpus=CPUS, zones={"node-0": {"cpu": "4"}}))
    assert ledger.version("n0") > max(versions)
