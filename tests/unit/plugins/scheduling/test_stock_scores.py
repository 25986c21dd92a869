"""NodeResourcesBalancedAllocation and ImageLocality give the scores that a plain loop over nodes gives."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy_plugins.scheduling.stock.imagelocality.plugin import ImageLocality, normalized
from koordpy_plugins.scheduling.stock.noderesourcesbalancedallocation.plugin import (
    NodeResourcesBalancedAllocation,
)

MEGABYTE = 1 << 20
RESOURCES = ("cpu", "memory", "example.com/gpu", "ephemeral-storage")

amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 12), max_size=4)
image_names = st.sampled_from(["a:latest", "b:v1", "reg:5000/c", "reg:5000/c:latest"])
images = st.lists(
    st.fixed_dictionaries(
        {
            "names": st.lists(image_names, min_size=1, max_size=2, unique=True),
            "sizeBytes": st.just(700 * MEGABYTE),
        }
    ),
    max_size=3,
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(["n0", "n1", "n2", "n3"]))
    status = {"allocatable": {**draw(amounts), "pods": 10}, "images": draw(images)}
    return decode(Node, {"metadata": {"name": name, "uid": name}, "status": status})


@st.composite
def pods(draw: st.DrawFn, bound: bool = True) -> Pod:
    name = draw(st.sampled_from(["p0", "p1", "p2", "p3"]))
    container = st.fixed_dictionaries(
        {
            "image": st.sampled_from(["a", "b:v1", "reg:5000/c", "d"]),
            "resources": st.fixed_dictionaries({"requests": amounts}),
        }
    )
    spec: dict[str, Any] = {
        "nodeName": draw(st.sampled_from(["n0", "n1", "n2"])) if bound else "",
        "containers": draw(st.lists(container, max_size=2)),
        "initContainers": draw(st.lists(container, max_size=1)),
    }
    return decode(Pod, {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec})


changes = st.lists(st.one_of(nodes(), pods(), st.sampled_from(["d/p0", "n0", "n1"])), max_size=12)


def play(cluster: Cluster, sequence: list[Any]) -> None:
    for change in sequence:
        if isinstance(change, str):
            cluster.store(Pod if "/" in change else Node).discard(change)
        else:
            cluster.store(type(change)).apply(change)


def balance_of(pod: dict[str, int], node: NodeInfo) -> int:
    shares = [
        min(1.0, (node.requested(name) + pod.get(name, 0)) / node.allocatable(name))
        for name in RESOURCES
        if node.allocatable(name) and (pod.get(name) or name != "example.com/gpu")
    ]
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    if len(shares) < 2:
        return 100
    mean = sum(shares) / len(shares)
    return int((1 - math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))) * 100)


@settings(max_examples=100, deadline=None)
@given(st.lists(nodes(), min_size=1), changes, pods(bound=False), st.sampled_from(["", "n0"]))
def test_balanced_allocation_is_the_deviation_of_the_used_shares(
    first: list[Node], after: list[Any], pod: Pod, promised: str
) -> None:
    cluster = Cluster()
    args = {"resources": [{"name": name} for name in RESOURCES]}
    cls = NodeResourcesBalancedAllocation
    plugin = cls.make(Handle(cluster), args)
    play(cluster, [*first, *after])
    state, candidates = CycleState(), cluster.nodes.all()
    if promised:
        candidates = candidates.with_pods({promised: [pod]})
    if plugin.pre_score(state, pod, candidates).is_skip:
        return
    requests = {name: sum(_requests(pod, name)) for name in RESOURCES}
    for init in pod.spec.init_containers:
        for name in RESOURCES:
            requests[name] = max(requests[name], _amount(name, init.resources.requests.get(name, 0)))
    expected = [balance_of(requests, node) for node in each(candidates)]
    assert plugin.score_nodes(state, pod, candidates).tolist() == expected
    assert plugin.score_nodes(CycleState(), pod, candidates).tolist() == expected


def _requests(pod: Pod, name: str) -> list[int]:
    return [_amount(name, container.resources.requests.get(name, 0)) for container in pod.spec.containers]


def _amount(name: str, amount: Any) -> int:
    return int(amount) * (1000 if name == "cpu" else 1)


def test_what_a_container_has_already_counts_for_the_balance() -> None:
    cluster = Cluster()
    cls = NodeResourcesBalancedAllocation
    plugin = cls.make(Handle(cluster))
    status = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": 10}}}
    cluster.store(Node).apply(decode(Node, status))
    pod = decode(
        Pod,
        {
            "spec": {"containers": [{"name": "c"}]},
            "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        },
    )
    state, candidates = CycleState(), cluster.nodes.all()
    assert plugin.pre_score(state, pod, candidates).is_success
    assert plugin.score_nodes(state, pod, candidates).tolist() == [75]


def test_a_pod_that_requests_nothing_is_not_ranked_by_balance() -> None:
    cluster = Cluster()
    cls = NodeResourcesBalancedAllocation
    plugin = cls.make(Handle(cluster))
    assert plugin.pre_score(CycleState(), decode(Pod, {}), cluster.nodes.all()).is_skip


@settings(max_examples=100, deadline=None)
@given(st.lists(nodes(), min_size=1), changes, pods(bound=False), changes)
def test_image_locality_adds_up_what_need_not_be_pulled(
    first: list[Node], before: list[Any], pod: Pod, after: list[Any]
) -> None:
    cluster = Cluster()
    plugin = ImageLocality.make(Handle(cluster))
    wanted = [normalized(c.image) for c in (*pod.spec.init_containers, *pod.spec.containers)]
    for changes_ in ([*first, *before], after):
        play(cluster, changes_)
        candidates = cluster.nodes.all()
        held = {
            node.name: {name for image in node.node.status.images for name in image.names}
            for node in each(candidates)
        }
        expected = []
        for node in each(candidates):
            counts = [
                sum(name in names for names in held.values()) for name in wanted if name in held[node.name]
            ]
            total = sum(int(700 * MEGABYTE * (count / len(held))) for count in counts)
            low, high = 23 * MEGABYTE, 1000 * MEGABYTE * len(wanted)
            expected.append((min(max(total, low), high) - low) * 100 // (high - low) if wanted else 0)
        assert plugin.score_nodes(CycleState(), pod, candidates).tolist() == expected


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("a", "a:latest"),
        ("reg:5000/a", "reg:5000/a:latest"),
        ("a:v1", "a:v1"),
        ("a@sha256:ab", "a@sha256:ab"),
    ],
)
def test_an_image_without_tag_is_the_latest(name: str, full: str) -> None:
    assert normalized(name) == full


def test_an_image_volume_counts_as_an_image() -> None:
    cluster = Cluster()
    plugin = ImageLocality.make(Handle(cluster))
    status = {"images": [{"names": ["model:v1"], "sizeBytes": 1000 * MEGABYTE}]}
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n"}, "status": status}))
    pod = decode(Pod, {"spec": {"volumes": [{"name": "model", "image": {"reference": "model:v1"}}]}})
    assert plugin.score_nodes(CycleState(), pod, cluster.nodes.all()).tolist() == [100]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([{"name": "cpu", "weight": 2}], "args.resources[0].weight: Invalid value: 2: must be 1"),
        ([{"name": "cpu"}, {"name": "cpu"}], 'args.resources[1].name: Duplicate value: "cpu"'),
    ],
)
def test_wrong_resources_are_refused(resources: list[dict[str, Any]], message: str) -> None:
    cls = NodeResourcesBalancedAllocation
    with pytest.raises(ConfigError) as caught:
        cls.read_args({"resources": resources}, "args")
    assert message in str(caught.value)


def test_an_image_of_the_largest_size_that_a_node_can_report_is_scored() -> None:
    cluster = Cluster()
    plugin = ImageLocality.make(Handle(cluster))
    for name in ("a", "b"):
        status = {"images": [{"names": ["a:latest"], "sizeBytes": 2**63 - 1}]}
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": name}, "status": status}))
    pod = decode(Pod, {"spec": {"containers": [{"name": "c", "image": "a"}]}})
    assert len(plugin.score_nodes(CycleState(), pod, cluster.nodes.all())) == 2
