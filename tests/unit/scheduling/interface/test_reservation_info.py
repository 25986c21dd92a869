from typing import Any

from koordpy.api.core import Pod
from koordpy.api.quantity import parse
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.reservation_info import AssignedPod, HostPort, ReservationInfo

from ..worlds import pod


def reservation(held: dict[str, str], annotations: dict[str, str] | None = None, **spec: Any) -> Reservation:
    return decode(
        Reservation,
        {
            "metadata": {"name": "r", "uid": "ur", "annotations": annotations or {}},
            "spec": {"ttl": "1h", "owners": [{}], "template": {"spec": {}}, **spec},
            "status": {"phase": "Available", "nodeName": "n1", "allocatable": held},
        },
    )


def test_allocated_is_not_capped_but_the_rest_is() -> None:
    info = ReservationInfo(reservation({"cpu": "2", "memory": "2Gi"}, allocateOnce=False))
    assert info.nonzero_allocated == (0, 0)
    info.assign(AssignedPod.of(pod("a", "3", "1Gi")))
    assert info.allocated == {"cpu": parse("3"), "memory": parse("1Gi")}
    assert info.available == {"cpu": 0, "memory": 1 << 30}
    info.unassign("uid-a")
    assert info.allocated == {"cpu": parse("0"), "memory": parse("0")}
    assert info.available == {"cpu": 2000, "memory": 2 << 30}


def test_a_pod_is_counted_once_as_it_was_when_it_came() -> None:
    info = ReservationInfo(reservation({"cpu": "4"}, allocateOnce=False))
    info.assign(AssignedPod.of(pod("a", "1")))
    info.assign(AssignedPod.of(pod("a", "2")))
    assert info.allocated == {"cpu": parse("1")}


def test_only_a_restricted_reservation_uses_its_options() -> None:
    options = {"scheduling.koordinator.sh/reservation-restricted-options": '{"resources":["cpu"]}'}
    held = {"cpu": "1", "memory": "1Gi"}
    assert ReservationInfo(reservation(held, options)).resource_names == ("cpu", "memory")
    restricted = reservation(held, options, allocatePolicy="Restricted")
    assert ReservationInfo(restricted).resource_names == ("cpu",)
    bad = dict.fromkeys(options, "bad")
    assert not ReservationInfo(reservation(held, bad)).parse_error
    broken = ReservationInfo(reservation(held, bad, allocatePolicy="Restricted"))
    assert broken.parse_error
    assert not broken.is_matchable
    assert not broken.has_owner(pod("a"))


def test_node_reservation_within_a_reservation_is_unusable() -> None:
    inner = {"node.koordinator.sh/reservation": '{"resources":{"cpu":"500m","x.io/other":"1"}}'}
    info = ReservationInfo(reservation({"cpu": "2"}, inner))
    assert info.available == {"cpu": 1500, "x.io/other": 0}
    info.update(reservation({"cpu": "2"}, inner))
    assert info.reserved == {"cpu": parse("500m")}


def test_allocate_once_is_used_up_by_one_pod() -> None:
    info = ReservationInfo(reservation({"cpu": "2"}))
    assert info.is_matchable
    info.assign(AssignedPod.of(pod("a", "1")))
    assert info.is_used_up
    assert not info.is_matchable


def test_a_changed_reservation_keeps_its_pods_and_masks_what_they_use() -> None:
    info = ReservationInfo(reservation({"cpu": "4", "memory": "4Gi"}, allocateOnce=False))
    info.assign(AssignedPod.of(pod("a", "1", "1Gi")))
    info.update(reservation({"cpu": "4"}, allocateOnce=False))
    assert list(info.assigned) == ["uid-a"]
    assert info.allocated == {"cpu": parse("1")}


def test_a_clone_does_not_see_later_pods() -> None:
    info = ReservationInfo(reservation({"cpu": "4"}, allocateOnce=False))
    copy = info.clone()
    info.assign(AssignedPod.of(pod("a", "1")))
    assert not copy.assigned
    assert copy.allocated is None


def test_a_pod_can_be_a_reservation() -> None:
    document = {
        "metadata": {
            "name": "op",
            "namespace": "default",
            "uid": "uop",
            "annotations": {
                "scheduling.koordinator.sh/reservation-owners": '[{"object":{"name":"a"}}]',
                "scheduling.koordinator.sh/reservation-restricted-options": '{"resources":["cpu"]}',
            },
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    "ports": [{"hostPort": 80}],
                }
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    info = ReservationInfo(decode(Pod, document))
    assert info.is_matchable
    assert info.is_allocate_once
    assert (info.policy, info.node_name, info.resource_names) == ("Aligned", "n1", ("cpu",))
    assert info.has_owner(pod("a"))
    assert not info.has_owner(pod("b"))
    assert info.ports == {HostPort("0.0.0.0", "TCP", 80)}
