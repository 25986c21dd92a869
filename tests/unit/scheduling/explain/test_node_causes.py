"""What nodes keep back from pods is named where an attempt found too little of it."""

from collections.abc import Mapping

import pytest

from koordpy.api.core import Node
from koordpy.api.extension import ANNOTATION_NODE_RESERVATION
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.explain.node_causes import kept_back_causes
from koordpy.testing.objects import node


def messages(message: str, reservations: Mapping[str, str]) -> list[str]:
    cluster = Cluster()
    cluster.store(Node).apply(node("plain"))
    for name, text in reservations.items():
        cluster.store(Node).apply(node(name, annotations={ANNOTATION_NODE_RESERVATION: text}))
    return [cause.message for cause in kept_back_causes(cluster, message)]


def test_nodes_are_named_with_what_they_keep_back() -> None:
    reservations = dict.fromkeys("dcba", '{"reservedCPUs": "0-3"}')
    [told] = messages("0/5 nodes are available: 5 Insufficient cpu.", reservations)
    assert told.endswith(": a 4, b 4, c 4 and 1 more")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("1 Insufficient memory", '{"reservedCPUs": "0-3"}'),
        ("1 Insufficient cpu", '{"reservedCPUs": "0-3", "applyPolicy": "ReservedCPUsOnly"}'),
        ("1 Insufficient cpu", "not JSON"),
        ("1 node(s) had no room", '{"resources": {"cpu": "4"}}'),
    ],
)
def test_nothing_is_named_that_was_not_short_or_is_not_kept_back(message: str, text: str) -> None:
    assert messages(message, {"a": text}) == []
