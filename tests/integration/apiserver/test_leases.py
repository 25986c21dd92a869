"""Leases: what leader election rests on."""

import pytest

from tests.integration.apiserver.rest import Collection, Document, Rest, causes, ok, refused


@pytest.fixture
def leases(rest: Rest, namespace: str) -> Collection:
    return rest.collection("leases", namespace)


def lease(holder: str, **spec: object) -> Document:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0, **spec}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": spec,
    }


def test_first_candidate_gets_the_lease(leases: Collection) -> None:
    ok(leases.create(lease("one")), 201)
    refused(leases.create(lease("two")), 409, "AlreadyExists")
    assert ok(leases.get("leader"))["spec"]["holderIdentity"] == "one"


def test_of_two_candidates_with_the_same_view_one_wins(leases: Collection) -> None:
    seen = ok(leases.create(lease("old")), 201)
    one = seen | {"spec": seen["spec"] | {"holderIdentity": "one", "leaseTransitions": 1}}
    two = seen | {"spec": seen["spec"] | {"holderIdentity": "two", "leaseTransitions": 1}}
    ok(leases.replace(one), 200)
    refused(leases.replace(two), 409, "Conflict")
    assert ok(leases.get("leader"))["spec"]["holderIdentity"] == "one"


def test_times_keep_their_microseconds(leases: Collection) -> None:
    time = "2026-01-02T03:04:05.000006Z"
    assert ok(leases.create(lease("one", renewTime=time)), 201)["spec"]["renewTime"] == time
    assert ok(leases.get("leader"))["spec"]["renewTime"] == time


def test_lease_must_last(leases: Collection) -> None:
    found = causes(refused(leases.create(lease("one", leaseDurationSeconds=0)), 422, "Invalid"))
    assert found == {"spec.leaseDurationSeconds": "FieldValueInvalid"}


def test_time_that_is_none_is_400(leases: Collection) -> None:
    refused(leases.create(lease("one", renewTime="soon")), 400, "BadRequest")
