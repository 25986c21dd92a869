"""Whether the audit finds NUMA nodes of which more is handed out than they have."""

import json

import pytest

from koordpy.api import extension
from tests.unit.audit.books import findings, held, node, only, pod, report, reservation, topology

RATIO = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: json.dumps({"cpu": 1.5})}
ZONES = {"0": {"cpu": "8", "memory": "8Gi"}, "1": {"cpu": "8", "memory": "8Gi"}}


def test_parts_that_fit_are_clean() -> None:
    parts = [pod(f"p{i}", zones={"0": {"cpu": "4"}, "1": {"cpu": "4"}}) for i in range(2)]
    assert findings(node(), topology(zones=ZONES), *parts) == []


def test_too_much_of_a_zone_names_its_holders() -> None:
    parts = [pod("a", zones={"1": {"memory": "5Gi"}}), pod("b", zones={"1": {"memory": "4Gi"}})]
    found = only(node(), topology(zones=ZONES), *parts)
    assert (found.what, found.held, found.limit) == ("NUMA node 1 memory", "9Gi", "8Gi")
    assert [str(owner) for owner in found.owners] == ["Pod default/a (5Gi)", "Pod default/b (4Gi)"]


def test_reserved_cpus_are_no_part_of_a_zone() -> None:
    reserved = {extension.ANNOTATION_NODE_RESERVATION: {"reservedCPUs": "0-1"}}
    given = topology(zones=ZONES, annotations=reserved)
    assert findings(node(), given, pod("a", zones={"0": {"cpu": "6"}, "1": {"cpu": "8"}})) == []
    assert only(node(), given, pod("a", zones={"0": {"cpu": "7"}})).limit == "6"


@pytest.mark.parametrize(("cpu", "clean"), [("12", True), ("12500m", False)])
def test_zones_are_amplified_by_the_ratios_of_the_node(cpu: str, clean: bool) -> None:
    amplified = node(annotations=RATIO, cpu="24")
    found = findings(amplified, topology(zones=ZONES), pod("a", zones={"0": {"cpu": cpu}}))
    assert (found == []) is clean


def test_zones_that_are_amplified_already_stay() -> None:
    given = topology(
        zones=ZONES, annotations={extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: {"cpu": 1.5}}
    )
    assert only(node(annotations=RATIO), given, pod("a", zones={"0": {"cpu": "9"}})).limit == "8"


def test_bound_cpus_count_amplified_in_their_zone() -> None:
    bound = pod("a", cpuset="0-3", zones={"0": {"cpu": "4"}})
    amplified = node(annotations=RATIO, cpu="24")
    assert findings(amplified, topology(zones=ZONES), bound, pod("b", zones={"0": {"cpu": "6"}})) == []
    found = only(amplified, topology(zones=ZONES), bound, pod("b", zones={"0": {"cpu": "7"}}))
    assert (found.held, found.limit) == ("13", "12")


def test_owners_use_what_their_reservation_has_of_a_zone() -> None:
    kept = reservation("r", owners=("a",), annotations=held(zones={"0": {"cpu": "8"}}))
    owner = pod("a", zones={"0": {"cpu": "4"}}, reservation="r")
    assert findings(node(), topology(), kept, owner) == []
    assert only(node(), topology(), kept, owner, pod("b", zones={"0": {"cpu": "1"}})).held == "9"


def test_a_zone_that_does_not_exist() -> None:
    found = only(node(), topology(), pod("a", zones={"7": {"cpu": "1"}}))
    assert (found.what, found.problem) == ("NUMA node 7 cpu", "handed out, and not in the topology")


def test_a_zone_does_not_limit_what_it_does_not_list() -> None:
    assert findings(node(), topology(), pod("a", zones={"0": {"memory": "1Ti"}})) == []


def test_nodes_without_zones_are_counted() -> None:
    checked = next(
        item
        for item in report(node(), pod("a", zones={"0": {"cpu": "1"}})).checks
        if item.check == "numa-nodes"
    )
    assert checked.counts == {"nodes": 1, "nodes without zones": 1}
