"""Whether the audit finds Reservations that are used twice, or whose status is wrong."""

from typing import Any

import pytest

from koordpy.api import extension
from tests.unit.audit.books import findings, names, node, only, pod, reservation

CHECK = "reservations"


def owner(name: str, cpu: str = "2", **more: Any) -> Any:
    return pod(name, requests={"cpu": cpu}, reservation="r", **more)


def test_a_reservation_with_the_status_of_its_owners_is_clean() -> None:
    kept = reservation("r", reserved={"cpu": "4"}, owners=("a", "b"), allocated={"cpu": "4"})
    assert findings(node(), kept, owner("a"), owner("b")) == []


def test_allocate_once_is_used_once() -> None:
    kept = reservation(
        "r", reserved={"cpu": "4"}, owners=("a", "b"), allocated={"cpu": "4"}, allocateOnce=True
    )
    found = only(node(), kept, owner("a"), owner("b"))
    assert (found.held, found.limit) == ("2 owners", "1 owner")
    assert names(found) == ["Reservation r", "Pod default/a", "Pod default/b"]


def test_allocate_once_may_take_over_several_pods_if_its_policy_says_so() -> None:
    kept = reservation(
        "r",
        reserved={"cpu": "4"},
        owners=("a", "b"),
        allocated={"cpu": "4"},
        allocateOnce=True,
        preAllocationPolicy={"enableMultiple": True},
    )
    assert findings(node(), kept, owner("a"), owner("b")) == []


@pytest.mark.parametrize(("policy", "clean"), [("Restricted", False), ("Aligned", True), ("", True)])
def test_only_restricted_limits_its_owners(policy: str, clean: bool) -> None:
    kept = reservation(
        "r", reserved={"cpu": "3"}, owners=("a", "b"), allocated={"cpu": "4"}, allocatePolicy=policy
    )
    found = findings(node(), kept, owner("a"), owner("b"))
    assert (found == []) is clean
    if not clean:
        assert (found[0].what, found[0].held, found[0].limit) == ("Reservation r cpu", "4", "3")
        assert str(found[0].owners[1]) == "Pod default/a (2)"


def test_restricted_options_say_what_is_limited() -> None:
    options = {extension.ANNOTATION_RESERVATION_RESTRICTED_OPTIONS: '{"resources": ["memory"]}'}
    kept = reservation(
        "r",
        reserved={"cpu": "1", "memory": "1Gi"},
        owners=("a",),
        allocated={"cpu": "2"},
        allocatePolicy="Restricted",
        annotations=options,
    )
    assert findings(node(), kept, owner("a")) == []


def test_an_owner_on_another_node_is_an_error() -> None:
    kept = reservation("r", reserved={"cpu": "4"})
    found = only(node(), node("n2"), kept, owner("a", on="n2"))
    assert (found.severity, found.problem) == ("error", "used by a pod on node n2")


def test_an_owner_that_the_status_lacks_is_a_warning() -> None:
    found = only(node(), reservation("r", reserved={"cpu": "4"}), owner("a"))
    assert (found.severity, found.problem) == ("warning", "status.currentOwners lacks owners")
    assert names(found) == ["Reservation r", "Pod default/a"]


def test_an_owner_that_is_gone_is_a_warning() -> None:
    kept = reservation("r", reserved={"cpu": "4"}, owners=("a",), allocated={"cpu": "2"})
    found = only(node(), kept)
    assert (found.severity, names(found)) == ("warning", ["Reservation r", "Pod default/a"])


def test_an_owner_that_has_ended_may_stay_in_the_status_until_it_is_deleted() -> None:
    kept = reservation("r", reserved={"cpu": "4"}, owners=("a",), allocated={"cpu": "2"})
    assert findings(node(), kept, owner("a", phase="Succeeded")) == []
    assert findings(node(), reservation("r", reserved={"cpu": "4"}), owner("a", phase="Succeeded")) == []


def test_an_allocated_amount_that_is_wrong_is_a_warning() -> None:
    kept = reservation("r", reserved={"cpu": "4"}, owners=("a",), allocated={"cpu": "1"})
    found = only(node(), kept, owner("a"))
    assert (found.what, found.held, found.limit) == ("Reservation r cpu", "1", "2")


def test_allocated_amounts_are_compared_exactly() -> None:
    kept = reservation("r", reserved={"cpu": "4"}, owners=("a", "b"), allocated={"cpu": "1u"})
    assert findings(node(), kept, owner("a", "500n"), owner("b", "500n")) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_status_of_ended_reservations_is_history(phase: str) -> None:
    kept = reservation("r", reserved={"cpu": "4"}, phase=phase, owners=("x",), allocateOnce=True)
    assert findings(node(), kept, owner("a"), owner("b"), check=CHECK) == []
