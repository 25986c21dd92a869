"""Many terms are matched as each of them alone would be."""

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import node_affinity
from koordpy.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
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
