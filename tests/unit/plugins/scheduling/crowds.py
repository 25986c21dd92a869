"""Small clusters full of pods that care about each other, and changes to them, drawn by Hypothesis."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Status

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMES = ("n0", "n1", "n2", "n3")

_APP_A = {"matchLabels": {"app": "a"}}

selectors = st.sampled_from(
    [
        *[_APP_A] * 12,
        {"matchLabels": {"app": "b"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
        {},
        None,
    ]
)
namespace_selectors = st.sampled_from(
    [
        *[None] * 4,
        {},
        {"matchLabels": {"team": "x"}},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    ]
)
topology_keys = st.sampled_from([ZONE, ZONE, HOST, HOST, "rack"])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """A node with some of the labels."""
    name = draw(st.sampled_from(NAMES))
    labels = {HOST: name} if draw(st.integers(0, 9)) else {}
    for key in (ZONE, "rack"):
        value = draw(st.sampled_from(["a", "a", "b", "b", "c", None]))
        if value is not None:
            labels[key] = value
    taints = draw(st.sampled_from([[], [{"key": "k", "effect": "NoSchedule"}]]))
    return decode(
        Node, {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"taints": taints}}
    )


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    """A pod affinity term."""
    return {
        "labelSelector": draw(selectors),
        "namespaces": draw(st.sampled_from([[], [], ["x"], ["x", "y"]])),
        "namespaceSelector": draw(namespace_selectors),
        "topologyKey": draw(topology_keys),
    }


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any]:
    """Inter-pod affinity and anti-affinity, often none."""
    lists = st.lists(terms(), max_size=2)
    weighted = st.lists(
        st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": terms()}), max_size=2
    )
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": draw(lists),
            "preferredDuringSchedulingIgnoredDuringExecution": draw(weighted),
        }
        for kind in ("podAffinity", "podAntiAffinity")
        if draw(st.booleans())
    }


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, Any]:
    """A spread constraint."""
    return {
        "maxSkew": draw(st.sampled_from([1, 1, 1, 2])),
        "topologyKey": draw(topology_keys),
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        "labelSelector": draw(selectors),
        "minDomains": draw(st.sampled_from([None, None, None, 2, 4])),
        "nodeAffinityPolicy": draw(st.sampled_from([None, "Honor", "Ignore"])),
        "nodeTaintsPolicy": draw(st.sampled_from([None, "Honor", "Ignore"])),
        "matchLabelKeys": draw(st.sampled_from([[], [], ["app"], ["hash"]])),
    }


@st.composite
def pods(draw: st.DrawFn, bound: bool = True, terminating: bool = True) -> Pod:
    """A pod, on a node or still to be placed."""
    name = f"p{draw(st.integers(0, 9))}" if bound else "new"
    labels = draw(st.sampled_from([*[{"app": "a"}] * 8, {"app": "b"}, {"app": "a", "hash": "1"}, {}]))
    gone = terminating and bound and not draw(st.integers(0, 5))
    metadata = {
        "name": name,
        "namespace": draw(st.sampled_from([*["x"] * 8, "y"])),
        "uid": f"uid-{name}",
        "labels": labels,
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if gone else {}),
    }
    spec: dict[str, Any] = {
        "affinity": draw(affinities()),
        "topologySpreadConstraints": [] if bound else draw(st.lists(constraints(), min_size=1, max_size=2)),
        "tolerations": draw(st.sampled_from([[], [{"operator": "Exists"}]])),
        "nodeSelector": draw(st.sampled_from([{}, {"rack": "a"}])),
    }
    if bound:
        spec["nodeName"] = draw(st.sampled_from([*NAMES[:2], *NAMES, "unknown"]))
    return decode(Pod, {"metadata": metadata, "spec": spec})


@st.composite
def namespaces(draw: st.DrawFn) -> Namespace:
    """A namespace, perhaps with a label."""
    name = draw(st.sampled_from(["x", "y"]))
    labels = draw(st.sampled_from([{}, {"team": "x"}]))
    return decode(Namespace, {"metadata": {"name": name, "uid": name, "labels": labels}})


@st.composite
def crowds(draw: st.DrawFn, *, terminating: bool = True) -> list[Any]:
    """Several nodes, and more pods on them."""
    return [
        *draw(st.lists(nodes(), min_size=3, max_size=6)),
        *draw(st.lists(namespaces(), max_size=2)),
        *draw(st.lists(pods(terminating=terminating), min_size=3, max_size=10)),
    ]


def changes() -> st.SearchStrategy[list[Any]]:
    """Objects that come or change, and (as `(type, key)`) objects that go."""
    gone = st.sampled_from([(Pod, "x/p0"), (Pod, "x/p1"), (Pod, "y/p2"), (Node, "n0"), (Node, "n1")])
    return st.lists(st.one_of(nodes(), pods(), pods(), namespaces(), gone), max_size=6)


def play(cluster: Cluster, sequence: Sequence[Any]) -> None:
    """Let a cluster see changes. A pod does not move: it is deleted on its old node first."""
    for change in sequence:
        if isinstance(change, tuple):
            type_, key = change
            cluster.store(type_).discard(key)
            continue
        if isinstance(change, Pod):
            for namespace in ("x", "y"):
                cluster.store(Pod).discard(f"{namespace}/{change.metadata.name}")
        cluster.store(type(change)).apply(change)


def again(cluster: Cluster) -> Cluster:
    """Return another cluster that sees the same objects for the first time."""
    fresh = Cluster()
    assert len(fresh.nodes) == 0
    for type_ in (Namespace, Node, Pod):
        fresh.store(type_).replace(list(cluster.store(type_)))
    return fresh


def filtered(plugin: Any, pod: Pod, candidates: NodeSet) -> list[Status]:
    """PreFilter, then Filter on all candidates, unless the plugin has nothing to say."""
    state = CycleState()
    _, status = plugin.pre_filter(state, pod, candidates)
    if status.is_skip:
        return [Status()] * len(candidates)
    assert status.is_success
    verdict = plugin.filter_nodes(state, pod, candidates)
    return [verdict.status(index) for index in range(len(candidates))]
