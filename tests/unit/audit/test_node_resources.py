"""Whether the audit finds nodes on which more is requested than they have."""

import json

import pytest

from koordpy.api import extension
from tests.unit.audit.books import findings, held, names, node, only, pod, report, reservation, topology

CHECK = "node-resources"


def test_a_node_with_just_enough_is_clean() -> None:
    assert findings(node(cpu="4"), *(pod(f"p{i}", requests={"cpu": "2"}) for i in range(2))) == []


def test_over_commit_names_all_owners_and_both_amounts() -> None:
    found = only(node(cpu="4"), pod("a", requests={"cpu": "3"}), pod("b", requests={"cpu": "1500m"}))
    assert (found.node, found.what, found.held, found.limit) == ("n1", "cpu", "4500m", "4")
    assert [str(owner) for owner in found.owners] == ["Pod default/a (3)", "Pod default/b (1500m)"]
    assert found.severity == "error"


@pytest.mark.parametrize("name", ["memory", "example.com/thing", "hugepages-2Mi", "ephemeral-storage"])
def test_every_counted_resource_is_compared(name: str) -> None:
    assert only(node(**{name: "3"}), pod("a", requests={name: "4"})).what == name


@pytest.mark.parametrize(("name", "severity"), [("hugepages-2Mi", "error"), ("example.com/thing", "warning")])
def test_a_resource_that_the_node_does_not_have(name: str, severity: str) -> None:
    """Kubelets ignore extended resources that a node does not list: extenders may manage these."""
    found = only(node(), pod("a", requests={name: "1"}))
    assert (found.severity, found.held, found.limit) == (severity, "1", "0")


def test_a_ratio_beyond_all_numbers_amplifies_up_to_the_largest() -> None:
    ratio = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: '{"cpu": 1e308}'}
    found = only(node(annotations=ratio), pod("a", cpuset="0", requests={"cpu": "1"}))
    assert found.held == f"{2**63 - 1}m"


def test_resources_of_devices_are_left_to_devices_where_the_node_has_none() -> None:
    assert findings(node(), pod("a", requests={extension.GPU_CORE: "100"}), check=CHECK) == []


def test_pods_that_have_ended_hold_nothing_and_those_being_deleted_still_do() -> None:
    big = {"cpu": "16"}
    assert findings(node(), pod("a", requests=big), pod("b", requests=big, phase="Succeeded")) == []
    assert len(findings(node(), pod("a", requests=big), pod("b", requests=big, leaving=True))) == 1


@pytest.mark.parametrize("offered", [{extension.BATCH_CPU: "1000"}, {}])
def test_more_batch_resources_than_the_node_offers_now_are_a_note(offered: dict[str, str]) -> None:
    found = report(node(**offered), pod("a", requests={extension.BATCH_CPU: "2000"}))
    assert (found.findings, found.warnings, found.exit_code) == ([], 0, 0)
    [note] = found.notes
    assert (note.severity, note.what, note.held) == ("note", extension.BATCH_CPU, "2k")
    assert [str(owner) for owner in note.owners] == ["Pod default/a (2k)"]


def test_more_pods_than_a_node_may_run() -> None:
    found = only(node(pods="2"), *(pod(f"p{i}") for i in range(3)))
    assert (found.what, found.held, found.limit, len(found.owners)) == ("pods", "3", "2", 3)


def test_a_reservation_keeps_a_place_for_a_pod_until_a_pod_uses_it() -> None:
    kept = [node(pods="2"), reservation("r"), pod("a")]
    assert findings(*kept) == []
    assert [found.what for found in findings(*kept, pod("b"))] == ["pods"]
    used = reservation("r", owners=("b",))
    assert findings(node(pods="2"), used, pod("a"), pod("b", reservation="r")) == []


# --- Reservations --------------------------------------------------------------------------------


def test_what_a_reservation_keeps_and_pods_request_is_added_up() -> None:
    found = only(node(cpu="4"), reservation("r", reserved={"cpu": "3"}), pod("a", requests={"cpu": "2"}))
    assert names(found) == ["Reservation r", "Pod default/a"]
    assert (found.held, found.limit) == ("5", "4")


def test_what_owners_use_of_a_reservation_counts_once() -> None:
    kept = reservation("r", reserved={"cpu": "3"}, owners=("a",), allocated={"cpu": "2"})
    owner = pod("a", requests={"cpu": "2"}, reservation="r")
    assert findings(node(cpu="4"), kept, owner, pod("b", requests={"cpu": "1"})) == []
    found = only(node(cpu="4"), kept, owner, pod("b", requests={"cpu": "2"}))
    assert (found.held, found.limit) == ("5", "4")


def test_an_owner_that_uses_more_than_is_reserved_does_not_lend_the_rest() -> None:
    kept = reservation("r", reserved={"cpu": "1", "memory": "4Gi"}, owners=("a",), allocated={"cpu": "2"})
    owner = pod("a", requests={"cpu": "2"}, reservation="r")
    assert findings(node(cpu="2"), kept, owner) == []
    assert only(node(cpu="2"), kept, owner, pod("b", requests={"cpu": "1"})).held == "3"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Pending"])
def test_reservations_that_are_not_active_hold_nothing(phase: str) -> None:
    ended = reservation("r", reserved={"cpu": "4"}, phase=phase)
    assert findings(node(cpu="4"), ended, pod("a", requests={"cpu": "4"})) == []


def test_pods_that_ignore_reservations_may_use_what_is_reserved() -> None:
    labels = {extension.LABEL_RESERVATION_IGNORED: "true"}
    kept = reservation("r", reserved={"cpu": "4"})
    assert findings(node(cpu="4"), kept, pod("a", requests={"cpu": "3"}, labels=labels)) == []
    assert only(node(cpu="4"), kept, pod("a", requests={"cpu": "5"}, labels=labels)).held == "5"


def test_a_pod_that_acts_as_a_reservation_counts_with_its_owners_once() -> None:
    acting = pod("r", requests={"cpu": "4"}, labels={extension.LABEL_POD_OPERATING_MODE: "Reservation"})
    owner = pod("a", requests={"cpu": "3"}, reservation="r")
    assert findings(node(cpu="4"), acting, owner) == []
    assert only(node(cpu="4"), acting, owner, pod("b", requests={"cpu": "1"})).held == "5"


# --- amplified CPUs ------------------------------------------------------------------------------


@pytest.mark.parametrize(("others", "clean"), [("8", True), ("9", False)])
def test_bound_cpus_count_amplified(others: str, clean: bool) -> None:
    annotations = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: json.dumps({"cpu": 2})}
    amplified = node(cpu="16", annotations=annotations)
    bound = pod("a", requests={"cpu": "4"}, cpuset="0-3")
    found = findings(amplified, topology(), bound, pod("b", requests={"cpu": others}))
    assert (found == []) is clean


def test_bound_cpus_of_a_reservation_and_its_owner_are_amplified_once() -> None:
    annotations = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: json.dumps({"cpu": 1.5})}
    kept = reservation(
        "r", reserved={"cpu": "4"}, owners=("a",), allocated={"cpu": "4"}, annotations=held("0-3")
    )
    owner = pod("a", requests={"cpu": "4"}, cpuset="0-3", reservation="r")
    assert findings(node(cpu="6", annotations=annotations), topology(), kept, owner) == []
    assert only(node(cpu="5", annotations=annotations), topology(), kept, owner).held == "6"


def test_pods_on_a_node_that_does_not_exist_are_counted() -> None:
    from tests.unit.audit.books import report

    checked = report(node(), pod("a", on="gone")).checks[0]
    assert checked.counts["holders on nodes that do not exist"] == 1
