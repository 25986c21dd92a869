"""What the ledger makes of objects, and of allocations that no object shows yet."""

import json

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.extension import ANNOTATION_DEVICE_ALLOCATED, GPU_CORE, GPU_MEMORY_RATIO
from koordpy.api.quantity import parse
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy_plugins.scheduling.deviceshare.state.ledger import DeviceLedger
from koordpy_plugins.scheduling.deviceshare.state.metrics import NOT_WELL_PLANNED

from ..nodes import device, gpu


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def ledger(cluster):
    return cluster.shared(DeviceLedger)


def annotation(core="10"):
    return json.dumps({"gpu": [{"minor": 0, "resources": {GPU_CORE: core}}]})


def pod(node="n", text=None, name="p", phase="Running"):
    annotations = {ANNOTATION_DEVICE_ALLOCATED: annotation() if text is None else text}
    metadata = {"name": name, "namespace": "x", "uid": f"uid-{name}", "annotations": annotations}
    return decode(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}})


def reservation(phase="Available", uid="r-uid"):
    annotations = {ANNOTATION_DEVICE_ALLOCATED: annotation("30")}
    return decode(
        Reservation,
        {
            "metadata": {"name": "r", "uid": uid, "annotations": annotations},
            "spec": {"ttl": "1h", "owners": [{}], "template": {"metadata": {"namespace": "x"}}},
            "status": {"phase": phase, "nodeName": "n"},
        },
    )


def core(ledger, node="n"):
    devices = ledger.node(node)
    used = devices.used.get("gpu", {}) if devices is not None else {}
    return {minor: str(amounts[GPU_CORE]) for minor, amounts in used.items()}


def allocation(amount="5"):
    return {"gpu": (DeviceAllocation(0, {GPU_CORE: parse(amount)}),)}


def test_pods_use_devices_until_they_end(cluster, ledger):
    pods = cluster.store(Pod)
    pods.apply(pod(node=""))
    assert ledger.node("n") is None
    pods.apply(pod())
    assert core(ledger) == {0: "10"}
    pods.apply(pod(text=annotation("20")))
    assert core(ledger) == {0: "20"}
    pods.apply(pod(phase="Succeeded"))
    assert core(ledger) == {}


def test_a_pod_keeps_its_devices_while_it_is_resized_in_place_or_being_deleted(cluster, ledger):
    pods = cluster.store(Pod)
    pods.apply(pod())
    resized = pod()
    resized.spec.containers = decode(
        Pod, {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "9"}}}]}}
    ).spec.containers
    pods.apply(resized)
    assert core(ledger) == {0: "10"}
    leaving = pod()
    leaving.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    pods.apply(leaving)
    assert core(ledger) == {0: "10"}
    pods.discard("x/p")
    assert core(ledger) == {}


@pytest.mark.parametrize("text", ["{", "[]", annotation("x"), '{"gpu":[{"minor":9e9}]}'])
def test_an_annotation_that_cannot_be_read_is_nothing(cluster, ledger, text):
    cluster.store(Pod).apply(pod(text=text))
    assert core(ledger) == {}


def test_an_amount_below_0_takes_nothing_and_leaves_the_others(cluster, ledger):
    resources = {GPU_CORE: "50", GPU_MEMORY_RATIO: "-9223372036854775808"}
    cluster.store(Pod).apply(pod(text=json.dumps({"gpu": [{"minor": 0, "resources": resources}]})))
    used = ledger.node("n").used["gpu"][0]
    assert (str(used[GPU_CORE]), str(used.get(GPU_MEMORY_RATIO, "0"))) == ("50", "0")
    cluster.store(Pod).discard("x/p")
    assert core(ledger) == {}


def test_an_active_reservation_uses_devices(cluster, ledger):
    store = cluster.store(Reservation)
    store.apply(reservation())
    assert core(ledger) == {0: "30"}
    assert list(ledger.node("n").allocations["gpu"]) == ["x/r-uid"]
    store.apply(reservation("Succeeded"))
    assert core(ledger) == {}


def test_a_pod_named_like_a_reserve_pod_does_not_replace_what_is_reserved(cluster, ledger):
    cluster.store(Pod).apply(pod(name="r-uid"))
    cluster.store(Reservation).apply(reservation())
    assert core(ledger) == {0: "30"}
    cluster.store(Reservation).discard("r")
    assert core(ledger) == {0: "10"}


def test_what_is_reserved_counts_until_it_is_released_or_observed(cluster, ledger):
    ledger.reserve("n", "x/p", allocation())
    assert core(ledger) == {0: "5"}
    assert list(ledger.unconfirmed()) == ["x/p"]
    ledger.release("other", "x/p")
    assert core(ledger) == {0: "5"}
    ledger.release("n", "x/p")
    assert core(ledger) == {}
    ledger.reserve("n", "x/p", allocation())
    cluster.store(Pod).apply(pod(node=""))
    assert core(ledger) == {0: "5"}
    cluster.store(Pod).apply(pod())
    assert core(ledger) == {0: "10"}
    assert not ledger.unconfirmed()
    ledger.release("n", "x/p")
    assert core(ledger) == {0: "10"}


def test_a_pod_that_was_bound_elsewhere_no_longer_uses_what_was_reserved(cluster, ledger):
    ledger.reserve("n", "x/p", allocation())
    cluster.store(Pod).apply(pod(node="m"))
    assert core(ledger) == {}
    assert core(ledger, "m") == {0: "10"}


def test_a_node_is_known_as_long_as_an_object_says_something_of_it(cluster, ledger):
    nodes, devices = cluster.store(Node), cluster.store(Device)
    nodes.apply(decode(Node, {"metadata": {"name": "n"}}))
    devices.apply(device([gpu(0)]))
    devices.discard("n")
    assert ledger.node("n").total == {"gpu": {0: {}}}
    nodes.discard("n")
    assert ledger.node("n") is None
    cluster.store(Pod).apply(pod())
    cluster.store(Pod).discard("x/p")
    assert ledger.node("n") is None


def test_a_table_that_cannot_be_read_is_none(cluster, ledger):
    texts = ("[]", '{"x":[]}', '{"1":[{"minors":["a"]}]}', json.dumps({"1": [{}] * 1025}), "{}")
    found = []
    for text in texts:
        annotations = {"scheduling.koordinator.sh/gpu-partitions": text}
        cluster.store(Device).apply(device([gpu(0)], annotations=annotations, uid=text))
        found.append(ledger.node("n").partitions)
    assert found == [None, None, None, None, {}]


def test_nodes_that_are_not_well_planned_are_counted(cluster, ledger):
    def gauge():
        (metric,) = NOT_WELL_PLANNED.collect()
        return {sample.labels["node_name"]: sample.value for sample in metric.samples}

    label = "node.koordinator.sh/secondary-device-well-planned"
    cluster.store(Device).apply(device([gpu(0)], labels={label: "false"}))
    assert gauge() == {"n": 1}
    cluster.store(Device).apply(device([gpu(0)], labels={label: "true"}))
    assert gauge() == {}
    assert ledger.node("n").is_secondary_well_planned
    cluster.store(Device).apply(device([gpu(0)], labels={label: "false"}))
    cluster.store(Device).discard("n")
    assert gauge() == {}


def test_listeners_hear_of_nodes_that_change(cluster, ledger):
    cluster.store(Device).apply(device([gpu(0)]))
    heard: list[str] = []
    end = ledger.on_change(heard.append)
    cluster.store(Pod).apply(pod(node="m"))
    end()
    cluster.store(Pod).discard("x/p")
    assert heard == ["n", "m"]


def test_no_two_states_of_a_node_have_the_same_version(cluster, ledger):
    def version():
        return ledger.version("n")

    versions = [version()]
    pods, devices, reservations = (cluster.store(each) for each in (Pod, Device, Reservation))
    for change in (
        lambda: cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n"}})),
        lambda: devices.apply(device([gpu(0)])),
        lambda: pods.apply(pod()),
        lambda: reservations.apply(reservation()),
        lambda: ledger.reserve("n", "x/q", allocation()),
        lambda: ledger.release("n", "x/q"),
        lambda: pods.discard("x/p"),
        lambda: devices.apply(device([gpu(0), gpu(1)])),
    ):
        change()
        versions.append(version())
    pods.apply(pod(node="m"))
    assert version() == versions[-1], "another node has changed"
    assert versions[:2] == [0, 0]
    assert len(set(versions[1:])) == len(versions) - 1
    reservations.discard("r")
    devices.discard("n")
    cluster.store(Node).discard("n")
    assert (ledger.node("n"), version()) == (None, 0)
    devices.apply(device([gpu(0)]))
    assert version() > max(versions)
