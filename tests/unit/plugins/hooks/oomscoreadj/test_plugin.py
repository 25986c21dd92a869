import pytest
from prometheus_client import REGISTRY

from koordpy_plugins.hooks.oomscoreadj.plugin import OOMScoreAdj, annotated
from tests.hooks.node import HookNode

SPEC = {"containers": [{"name": "c0"}, {"name": "c1"}]}
POD, CONTAINER = "koordinator.sh/oom-score-adj", "koordinator.sh/oom-score-adj-spec"


@pytest.fixture
def node(node_cgroups):
    return HookNode(node_cgroups, OOMScoreAdj)


def score(process):
    with open(f"/proc/{process.pid}/oom_score_adj") as file:
        return int(file.read())


def series(pod, container):
    labels = {
        "node": "n",
        "pod_name": pod,
        "pod_namespace": "d",
        "pod_uid": pod,
        "container_name": container,
    }
    return REGISTRY.get_sample_value("koordlet_container_oom_score_adj", labels)


def test_processes_get_the_value_of_their_container_also_later_ones(node):
    directory = node.pod("a", SPEC, annotations={POD: "900", CONTAINER: '{"c1": 800}'})
    first = node.tree.hold(f"{directory}/ac0", 4096)
    other = node.tree.hold(f"{directory}/ac1", 4096)
    node.runtime.round()
    assert (score(first), score(other)) == (900, 800)
    later = node.tree.hold(f"{directory}/ac0", 4096)
    node.runtime.round()
    assert score(later) == 900


def test_a_series_ends_with_its_container(node):
    directory = node.pod("b", SPEC, annotations={POD: "900"})
    node.tree.hold(f"{directory}/bc0", 4096)
    node.runtime.round()
    assert series("b", "c0") == 900
    assert series("b", "c1") is None
    node.states.metas = []
    node.runtime.round()
    assert series("b", "c0") is None


def test_pods_without_the_annotation_are_left_alone(node):
    directory = node.pod("c", SPEC)
    process = node.tree.hold(f"{directory}/cc0", 4096)
    before = score(process)
    node.runtime.round()
    assert score(process) == before


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({POD: "+5"}, 5),
        ({POD: "007"}, 7),
        ({POD: "5", CONTAINER: '{"c0": -3}'}, -3),
        ({POD: "5", CONTAINER: '{"c1": -3}'}, 5),
        ({POD: "", CONTAINER: ""}, None),
    ],
)
def test_the_value_of_a_container(annotations, value):
    assert annotated(annotations, "c0") == value


@pytest.mark.parametrize(
    "annotations", [{POD: "1.5"}, {POD: " 3"}, {POD: "5", CONTAINER: "{"}, {CONTAINER: '{"c0": "5"}'}]
)
def test_an_invalid_value_sets_nothing(annotations):
    with pytest.raises(ValueError, match=r"expected|JSON"):
        annotated(annotations, "c0")
