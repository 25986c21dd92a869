"""Many terms are matched as each of them alone would be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import node_affinity
from koordpy.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
)
from koordpy.api.node_affinity import FEW_TERMS

keys = st.sampled_from(["os", "zone", "number"])
values = st.sampled_from(["a", "b", "3", "7"])
requirements = st.one_of(
    st.builds(NodeSelectorRequirement, keys, st.just("In"), st.lists(values, min_size=1, max_size=3)),
    st.builds(NodeSelectorRequirement, keys, st.just("NotIn"), st.lists(values, min_size=1, max_size=3)),
    st.builds(NodeSelectorRequirement, keys, st.sampled_from(["Exists", "DoesNotExist", "Bad"])),
    st.builds(NodeSelectorRequirement, keys, st.sampled_from(["Gt", "Lt"]), st.just(["5"])),
)
names = st.sampled_from(["n1", "n2", ""])
fields = st.builds(
    NodeSelectorRequirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.lists(names, min_size=1, max_size=2),
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=3),
    st.one_of(st.just([]), st.lists(fields, max_size=2)),
)


@given(
    st.lists(terms, min_size=1, max_size=6),
    st.lists(st.tuples(st.dictionaries(keys, values), names), min_size=1, max_size=6),
)
def test_an_index_matches_as_its_terms(
    written: list[NodeSelectorTerm], nodes: list[tuple[dict[str, str], str]]
) -> None:
    many = node_affinity.node_selector(NodeSelector(written * (FEW_TERMS + 1)))
    assert many.terms is not None
    assert many.terms == () or many.index is not None
    for labels, name in nodes:
        assert many.matches(labels, name) == any(term.matches(labels, name) for term in many.terms)


def test_thousands_of_terms_are_looked_up_not_evaluated() -> None:
    written = [
        NodeSelectorTerm(
            [NodeSelectorRequirement("os", "In", ["linux"]), NodeSelectorRequirement("rare", "In", [f"v{i}"])]
        )
        for i in range(5000)
    ]
    affinity = node_affinity.node_selector(NodeSelector(written))
    assert affinity.index is not None
    by_value = affinity.index._by_value
    candidates = [*by_value.get(("os", "linux"), ()), *by_value.get(("rare", "v7"), ())]
    assert len(candidates) == 1
    assert affinity.matches({"os": "linux", "rare": "v7"}, "n1")
    assert not affinity.matches({"os": "linux", "rare": "w"}, "n1")


def preference(written: list[tuple[int, NodeSelectorTerm]]) -> PodSpec:
    terms = [PreferredSchedulingTerm(weight=weight, preference=term) for weight, term in written]
    affinity = NodeAffinity(preferred_during_scheduling_ignored_during_execution=terms)
    return PodSpec(affinity=Affinity(node_affinity=affinity))


@given(
    st.lists(st.tuples(st.integers(1, 100), terms), min_size=1, max_size=6),
    st.lists(st.tuples(st.dictionaries(keys, values), names), min_size=1, max_size=6),
)
def test_an_index_adds_the_weights_that_its_terms_add(
    written: list[tuple[int, NodeSelectorTerm]], nodes: list[tuple[dict[str, str], str]]
) -> None:
    try:
        many = node_affinity.preferred(preference(written * (FEW_TERMS + 1)))
    except node_affinity.NodeAffinityError:
        return
    assert not many.terms or many.index is not None
    for labels, name in nodes:
        expected = sum(weight for weight, term in many.terms if term.matches(labels, name))
        assert many.score(labels, name) == expected


def test_terms_that_a_node_cannot_match_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = [
        *(NodeSelectorRequirement(f"key{i}", "In", ["a"]) for i in range(1000)),
        *(NodeSelectorRequirement(f"key{i}", "Exists") for i in range(1000)),
        *(NodeSelectorRequirement("kubernetes.io/hostname", "NotIn", [f"n{i}"]) for i in range(1000)),
        *(NodeSelectorRequirement(f"key{i}", "DoesNotExist") for i in range(1000)),
    ]
    prefers = node_affinity.preferred(preference([(1, NodeSelectorTerm([each])) for each in requirements]))
    evaluated = []
    monkeypatch.setattr(node_affinity.Term, "matches", lambda term, *_: evaluated.append(term))
    assert prefers.score({"kubernetes.io/hostname": "n7", "zone": "a"}, "n7") == 1999
    assert evaluated == []
