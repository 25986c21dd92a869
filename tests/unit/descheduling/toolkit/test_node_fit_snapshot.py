"""The fit for many pods of one run gives what the fit for single pods gives."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.node_fit_snapshot import Candidates, NodeFitSnapshot, placement_key
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy.descheduling.toolkit.upstream_node_fit import UpstreamNodeFit
from koordpy.lib.clock import SystemClock


def pod(name: str, at: int, cpu: int, zone: int, repels: bool) -> Pod:
    spec: dict[str, Any] = {
        "nodeName": f"n{at}",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    if zone:
        spec["nodeSelector"] = {"zone": f"z{zone % 2}"}
    if repels:
        term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": "a" if cpu == 1 else "b"}
    return decode(Pod, {"metadata": {"namespace": "a", "name": name, "labels": labels}, "spec": spec})


def node(index: int, cpu: int, cordoned: bool) -> Node:
    return decode(
        Node,
        {
            "metadata": {"name": f"n{index}", "labels": {"zone": f"z{index % 2}"}},
            "spec": {"unschedulable": cordoned},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "3"}},
        },
    )


PLACED = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2), st.booleans())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=4),
    st.lists(PLACED, max_size=8),
)
def test_candidates_fit_as_each_node_does(nodes: list[tuple[int, bool]], placed: list[Any]) -> None:
    cluster = Cluster(SystemClock())
    pods = [pod(f"p{index}", *each) for index, each in enumerate(placed)]
    cluster.store(Pod).replace(pods)
    candidates = [node(index, *each) for index, each in enumerate(nodes)]
    single = UpstreamNodeFit(NodePods(cluster))
    many = Candidates(NodeFitSnapshot(NodePods(cluster)), candidates)
    for each in pods:
        assert many.fit(each) == single.fits_any(each, candidates)
        assert many.other_fits(each) == single.fits_any_other(each, candidates)


def test_pods_with_equal_placement_share_a_key() -> None:
    assert placement_key(pod("p", 1, 1, 1, False)) == placement_key(pod("q", 2, 2, 1, True))
    assert placement_key(pod("p", 1, 1, 1, False)) != placement_key(pod("q", 1, 1, 0, False))
