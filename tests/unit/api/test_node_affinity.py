from typing import Any

import pytest

from koordpy.api.core import Node, PodSpec
from koordpy.api.node_affinity import ANY_NODE, NodeAffinityError, preferred, required
from koordpy.api.scheme import decode

ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
BIG = {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["8"]}]}
BAD = {"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}
NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def spec(*terms: dict[str, Any], **labels: str) -> PodSpec:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return decode(PodSpec, {"nodeSelector": labels, "affinity": {"nodeAffinity": affinity}})


def preferring(*terms: tuple[int, dict[str, Any]]) -> PodSpec:
    weighted = [{"weight": weight, "preference": term} for weight, term in terms]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return decode(PodSpec, {"affinity": {"nodeAffinity": affinity}})


def test_a_pod_without_affinity_runs_anywhere() -> None:
    assert required(PodSpec()) is ANY_NODE
    assert ANY_NODE.matches({}, "n")


@pytest.mark.parametrize(
    ("terms", "labels", "name", "matches"),
    [
        ((), {}, "n", False),
        (({},), {}, "n", False),
        ((ZONE_A,), {"zone": "a"}, "n", True),
        ((ZONE_A, BIG), {"cpus": "16"}, "n", True),
        ((ZONE_A | NAMED,), {"zone": "a"}, "n1", True),
        ((ZONE_A | NAMED,), {"zone": "a"}, "n2", False),
        ((NAMED,), {}, "", True),
        ((BAD, ZONE_A), {"zone": "a"}, "n", True),
    ],
)
def test_one_term_must_hold(
    terms: tuple[dict[str, Any], ...], labels: dict[str, str], name: str, matches: bool
) -> None:
    matcher = required(spec(*terms))
    assert matcher.matches(labels, name) is matches
    node = decode(Node, {"metadata": {"name": name, "labels": labels}})
    assert matcher.matches_node(node) is matches


def test_node_selector_labels_come_first_and_are_not_validated() -> None:
    matcher = required(spec(BAD, disk="-"))
    assert not matcher.check({"disk": "x"}, "n")
    with pytest.raises(NodeAffinityError, match=r"nodeSelectorTerms\[0\]"):
        matcher.check({"disk": "-"}, "n")


def test_nodes_named_by_every_term_are_known() -> None:
    assert required(spec(NAMED, NAMED | ZONE_A)).node_names == {"n1"}
    assert required(spec(NAMED, ZONE_A)).node_names is None
    assert ANY_NODE.node_names is None


def test_names_are_read_out_of_terms_that_are_not_valid_too() -> None:
    two = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}
    none = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": []}]}
    both = {"matchFields": [*two["matchFields"], *NAMED["matchFields"]]}
    assert required(spec(two)).node_names == {"n1", "n2"}
    assert required(spec(none)).node_names == frozenset()
    assert required(spec(both)).node_names == {"n1"}
    assert not required(spec(two)).matches({}, "n1")


def test_equal_specs_share_a_matcher() -> None:
    assert required(spec(ZONE_A)) is required(spec(ZONE_A))


def test_preferences_add_their_weights() -> None:
    matcher = preferred(preferring((10, ZONE_A), (5, BIG), (0, BAD), (7, {})))
    assert matcher.score({"zone": "a", "cpus": "16"}, "n") == 15
    assert matcher.score({"cpus": "8"}, "n") == 0


def test_one_bad_preference_fails_all() -> None:
    with pytest.raises(NodeAffinityError):
        preferred(preferring((10, ZONE_A), (1, BAD)))
