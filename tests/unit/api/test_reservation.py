from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.api import reservation_annotations as annotations
from koordpy.api import reservation_status as status
from koordpy.api.core import Pod
from koordpy.api.json_merge import apply
from koordpy.api.quantity import parse
from koordpy.api.reservation import Reservation, validate
from koordpy.api.reservation_affinity import affinity_of
from koordpy.api.reserve_pod import (
    MAX_PRIORITY,
    is_pre_allocation,
    is_reserve_pod,
    new_reserve_pod,
    reservation_name_of,
    reservation_requests,
    wanted_node_of,
)
from koordpy.api.resources import pod_requests
from koordpy.api.scheme import DecodeError, decode

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reservation(
    *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **parts: Any
) -> Reservation:
    spec = {
        "ttl": "1h",
        "owners": [{"labelSelector": {}}],
        "template": {
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}
        },
        **parts.pop("spec", {}),
    }
    return decode(
        Reservation,
        {
            "metadata": {
                "name": "r",
                "uid": "uid-r",
                "resourceVersion": "7",
                "creationTimestamp": "2026-03-01T12:00:00Z",
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": spec,
            **parts,
        },
    )


def test_what_cannot_be_scheduled_at_all_says_why() -> None:
    assert validate(None) == "the reservation is nil"
    assert validate(reservation(spec={"template": None})) == "the reservation misses the template spec"
    assert validate(reservation(spec={"owners": []})) == "the reservation misses the owner spec"
    assert validate(reservation(spec={"ttl": None})) == "the reservation misses the expiration spec"
    assert validate(reservation()) == ""


class TestReservePod:
    def test_it_is_named_by_uid_and_says_what_it_is(self) -> None:
        pod = new_reserve_pod(reservation(spec={"preAllocation": True}))
        assert (pod.metadata.name, pod.metadata.uid, pod.metadata.namespace) == ("uid-r", "uid-r", "default")
        assert is_reserve_pod(pod)
        assert is_pre_allocation(pod)
        assert reservation_name_of(pod) == "r"
        assert (pod.spec.priority, pod.spec.scheduler_name) == (MAX_PRIORITY, "default-scheduler")
        assert not is_reserve_pod(Pod())

    def test_labels_of_the_reservation_win_over_those_of_the_template(self) -> None:
        made = reservation(
            labels={"a": "mine", "koordinator.sh/priority": "1000"},
            spec={"template": {"metadata": {"labels": {"a": "its", "b": "its"}}, "spec": {}}},
        )
        pod = new_reserve_pod(made)
        assert pod.metadata.labels == {"a": "mine", "b": "its", "koordinator.sh/priority": "1000"}
        assert pod.spec.priority == 1000

    def test_the_node_of_the_template_is_a_wish(self) -> None:
        pod = new_reserve_pod(reservation(spec={"template": {"spec": {"nodeName": "n1"}}}))
        assert (pod.spec.node_name, wanted_node_of(pod)) == ("", "n1")

    def test_what_is_really_held_takes_the_place_of_the_template(self) -> None:
        made = reservation(
            status={"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "3", "x.io/gpu": "1"}}
        )
        pod = new_reserve_pod(made)
        assert pod.spec.node_name == "n1"
        assert pod_requests(pod) == {"cpu": parse("3"), "memory": parse("1Gi"), "x.io/gpu": parse("1")}
        assert reservation_requests(made) == {"cpu": parse("3"), "x.io/gpu": parse("1")}

    def test_equal_amounts_leave_the_containers_alone(self) -> None:
        held = {"cpu": "2000m", "memory": "1024Mi"}
        pod = new_reserve_pod(
            reservation(status={"phase": "Available", "nodeName": "n1", "allocatable": held})
        )
        assert [container.name for container in pod.spec.containers] == ["c"]


class TestStatus:
    def test_available_has_what_is_resized(self) -> None:
        key = "scheduling.koordinator.sh/reservation-resize-allocatable"
        made = status.set_available(reservation(annotations={key: '{"resources":{"cpu":"9"}}'}), "n1", NOW)
        assert made.is_available
        assert made.status.allocatable == {"cpu": "9", "memory": "1Gi"}
        assert [(c.type, c.status, c.reason) for c in made.status.conditions] == [
            ("Scheduled", "True", "Scheduled"),
            ("Ready", "True", "Available"),
        ]
        with pytest.raises(DecodeError):
            status.set_available(reservation(annotations={key: "bad"}), "n1", NOW)

    def test_a_failed_attempt_keeps_the_time_since_when_it_fails(self) -> None:
        first = status.set_unschedulable(reservation(), "no room", NOW)
        again = status.set_unschedulable(first, "still none", NOW + timedelta(minutes=1))
        (condition,) = again.status.conditions
        assert (condition.message, condition.reason) == ("still none", "Unschedulable")
        assert condition.last_transition_time == "2026-03-01T12:00:00Z"
        assert condition.last_probe_time == "2026-03-01T12:01:00Z"

    def test_an_attempt_after_success_is_only_noticed(self) -> None:
        placed = status.set_available(reservation(), "n1", NOW)
        after = status.set_unschedulable(placed, "x", NOW + timedelta(minutes=1))
        assert after.status.conditions[0].status == "True"
        assert after.status.conditions[0].last_probe_time == "2026-03-01T12:01:00Z"

    def test_succeeded_keeps_the_transition_time(self) -> None:
        placed = status.set_available(reservation(), "n1", NOW)
        used = status.set_succeeded(placed, NOW + timedelta(minutes=5))
        ready = used.status.conditions[1]
        assert used.is_terminated
        assert (ready.status, ready.reason) == ("False", "Succeeded")
        assert ready.last_transition_time == "2026-03-01T12:00:00Z"

    def test_expired_is_a_transition_from_ready(self) -> None:
        placed = status.set_available(reservation(), "n1", NOW)
        gone = status.set_expired(placed, NOW + timedelta(hours=2))
        assert status.is_expired(gone)
        assert gone.status.conditions[1].last_transition_time == "2026-03-01T14:00:00Z"
        assert not status.is_expired(placed)
        assert status.is_expired(status.set_expired(reservation(), NOW))

    @pytest.mark.parametrize(
        ("spec", "minutes", "over"),
        [
            ({"ttl": "1h"}, 60, False),
            ({"ttl": "1h"}, 61, True),
            ({"ttl": "0s", "expires": "2026-03-01T12:00:00Z"}, 61, False),
            ({"ttl": None, "expires": "2026-03-01T12:30:00Z"}, 31, True),
            ({"ttl": "24h", "expires": "2026-03-01T12:30:00Z"}, 30, False),
        ],
    )
    def test_when_the_time_is_over(self, spec: dict[str, Any], minutes: int, over: bool) -> None:
        assert status.needs_expiration(reservation(spec=spec), NOW + timedelta(minutes=minutes)) is over

    def test_the_patch_makes_one_status_of_the_other(self) -> None:
        before = reservation(status={"phase": "Pending", "allocated": {"cpu": "1", "memory": "1Gi"}})
        after = status.set_available(
            reservation(status={"phase": "Pending", "allocated": {"cpu": "1"}}), "n1", NOW
        )
        patch = status.status_patch(before, after)
        assert patch["metadata"] == {"uid": "uid-r", "resourceVersion": "7"}
        document = {"phase": "Pending", "allocated": {"cpu": "1", "memory": "1Gi"}}
        written = apply({"status": document}, {"status": patch["status"]})["status"]
        assert written["allocated"] == {"cpu": "1"}
        assert (written["phase"], written["nodeName"]) == ("Available", "n1")


@pytest.mark.parametrize(
    "key", ["reservation-restricted-options", "reservation-owners", "exact-match-reservation"]
)
def test_an_empty_annotation_is_none_and_a_blank_one_is_an_error(key: str) -> None:
    read = {
        "reservation-restricted-options": annotations.restricted_options,
        "reservation-owners": annotations.operating_owners,
        "exact-match-reservation": annotations.exact_match,
    }[key]
    assert not read({f"scheduling.koordinator.sh/{key}": ""})
    with pytest.raises(DecodeError):
        read({f"scheduling.koordinator.sh/{key}": " "})


def test_an_empty_affinity_wants_any_reservation_and_a_blank_one_is_an_error() -> None:
    key = "scheduling.koordinator.sh/reservation-affinity"
    assert affinity_of({key: ""}) == affinity_of({key: "{}"})
    with pytest.raises(DecodeError):
        affinity_of({key: " "})


def test_what_cannot_be_read_is_named() -> None:
    for key, read in (
        ("scheduling.koordinator.sh/reservation-affinity", affinity_of),
        ("scheduling.koordinator.sh/reservation-owners", annotations.operating_owners),
        ("scheduling.koordinator.sh/reservation-restricted-options", annotations.restricted_options),
    ):
        for text in ("bad", '"x"'):
            with pytest.raises(DecodeError, match=f"^annotation {key}: (not JSON|Expected)"):
                read({key: text})


def test_an_empty_resize_annotation_changes_nothing() -> None:
    key = "scheduling.koordinator.sh/reservation-resize-allocatable"
    assert annotations.resized_allocatable({key: ""}) == {}


@pytest.mark.parametrize(
    ("own", "of_template", "required"),
    [("true", "", True), ("", "true", False), (None, "true", True), ("false", "true", False)],
)
def test_its_own_label_goes_before_the_templates(own: str | None, of_template: str, required: bool) -> None:
    key = "scheduling.koordinator.sh/pre-allocation-required"
    labels = {} if own is None else {key: own}
    template = {"metadata": {"labels": {key: of_template}}, "spec": {"containers": []}}
    made = reservation(labels=labels, spec={"template": template})
    assert made.requires_pre_allocation is required
