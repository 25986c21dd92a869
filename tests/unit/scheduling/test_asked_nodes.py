"""What is remembered of the nodes that calls ask about is what would be found anew."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.asked_nodes import AskedNodes
from koordpy.scheduling.wire import BadBody

from .worlds import node

steps = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "ask"]), st.lists(st.sampled_from("abcd"), unique=True)),
    max_size=12,
)


def raw(names: list[str] | None) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(names).encode())


@given(steps)
def test_it_answers_as_the_table_does_whatever_comes_and_goes(steps: list[tuple[str, list[str]]]) -> None:
    table = NodeTable(capacity=2)
    asked = AskedNodes(table)
    for step, names in steps:
        if step == "ask":
            read = asked.names(raw(names))
            assert read == names
            for _ in range(2):
                nodes, unknown = asked.select(read)
                expected, missing = table.select(names)
                assert (list(nodes.names), unknown) == (list(expected.names), missing)
                assert nodes.rows.tolist() == expected.rows.tolist()
        for name in names:
            if step == "add":
                table.set_node(node(name))
            elif step == "remove":
                table.remove_node(name)


def test_no_names_are_no_list() -> None:
    assert AskedNodes(NodeTable()).names(raw(None)) is None


def test_names_that_cannot_be_read_are_refused_each_time() -> None:
    asked = AskedNodes(NodeTable())
    for _ in range(2):
        with pytest.raises(BadBody):
            asked.names(msgspec.Raw(b"[1]"))
