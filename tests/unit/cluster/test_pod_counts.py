"""Counts of pods by labels follow the pods."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.label_selector import parse
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.pod_counts import PodCounts, PodMatch

MATCHES = [
    PodMatch(((namespaces, parse(text)),), terminating)
    for namespaces in (None, frozenset({"x"}), frozenset({"x", "y"}))
    for text in ("", "app=a", "app!=a", "app in (a,b)")
    for terminating in (True, False)
]

pods = st.builds(
    lambda name, namespace, app, node, gone, phase: decode(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{namespace}-{name}",
                "labels": {"app": app} if app else {},
                **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if gone else {}),
            },
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        },
    ),
    st.sampled_from(["p0", "p1", "p2", "p3"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["", "a", "b", "c"]),
    st.sampled_from(["n0", "n1", "n2", ""]),
    st.booleans(),
    st.sampled_from(["Running", "Running", "Succeeded"]),
)
changes = st.lists(st.one_of(pods, st.sampled_from(["x/p0", "y/p1"])), max_size=20)


def play(cluster: Cluster, sequence: list[Any]) -> None:
    for change in sequence:
        if isinstance(change, str):
            cluster.store(Pod).discard(change)
        else:
            cluster.store(Pod).apply(change)


@settings(deadline=None)
@given(
    changes,
    changes,
    st.lists(st.sampled_from(MATCHES), min_size=1, max_size=12),
    st.sampled_from([32, 8 * 1700, 1 << 20]),
)
def test_counts_are_those_of_the_pods_that_are_there(
    before: list[Any], after: list[Any], asked: list[PodMatch], kind_bytes: int
) -> None:
    cluster = Cluster()
    table = cluster.nodes
    counts = cluster.shared(PodCounts, max_bytes=8 * 1700, kind_bytes=kind_bytes)
    for sequence in (before, after):
        play(cluster, sequence)
        for match in asked:
            found = counts.by_row(match, table.all())
            assert len(found) == table.capacity
            for row in range(table.capacity):
                assert found[row] == sum(map(match.matches, table.pods_on(row)))


def test_the_first_query_finds_existing_pods() -> None:
    cluster = Cluster()
    assert len(cluster.nodes) == 0
    document = {"metadata": {"name": "p", "namespace": "x", "uid": "1"}, "spec": {"nodeName": "n0"}}
    cluster.store(Pod).apply(decode(Pod, document))
    found = cluster.shared(PodCounts).by_row(MATCHES[0], cluster.nodes.all())
    assert found[cluster.nodes.row_of("n0")] == 1
    assert cluster.shared(PodCounts) is cluster.shared(PodCounts)


def test_what_an_overlay_shows_counts_instead() -> None:
    cluster = Cluster()
    table = cluster.nodes
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n0"}}))
    pod = decode(Pod, {"metadata": {"name": "p", "namespace": "x", "uid": "1"}})
    row = table.row_of("n0")
    assert cluster.shared(PodCounts).by_row(MATCHES[0], table.all().with_pods({"n0": [pod]}))[row] == 1
    assert cluster.shared(PodCounts).by_row(MATCHES[0], table.all())[row] == 0


def test_counts_follow_a_table_that_grows() -> None:
    cluster = Cluster()
    table = cluster.nodes
    match = MATCHES[0]
    cluster.shared(PodCounts).by_row(match, table.all())
    for number in range(table.capacity + 1):
        metadata = {"name": f"p{number}", "namespace": "x", "uid": f"{number}"}
        document = {"metadata": metadata, "spec": {"nodeName": f"n{number}"}}
        cluster.store(Pod).apply(decode(Pod, document))
    assert cluster.shared(PodCounts).by_row(match, table.all()).sum() == len(cluster.store(Pod))


def test_labels_of_which_all_pods_were_gone_for_a_while_are_counted_among_many_others() -> None:
    cluster = Cluster()
    store, table = cluster.store(Pod), cluster.nodes
    counts = cluster.shared(PodCounts, kind_bytes=8 * 1700)  # some eight sets of labels without pods

    def put(app: str, node: str) -> None:
        metadata = {"name": app, "namespace": "x", "uid": app, "labels": {"app": app}}
        store.apply(decode(Pod, {"metadata": metadata, "spec": {"nodeName": node}}))

    put("a", "n0")
    store.discard("x/a")
    put("a", "n0")
    for number in range(20):
        put(f"b{number}", "n0")
        store.discard(f"x/b{number}")
    everything, with_a = MATCHES[0], PodMatch(((None, parse("app=a")),))
    assert counts.by_row(everything, table.all()).sum() == 1
    assert counts.by_row(with_a, table.all()).sum() == 1
    store.discard("x/a")
    assert counts.by_row(with_a, table.all()).sum() == 0
