"""A cached share equals a computed one."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import resources
from koordpy.api.core import (
    Container,
    ContainerStatus,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from koordpy.api.meta import Condition, ObjectMeta
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import PODS, ResourceAxis
from koordpy.cluster.shares import MOST_NAMES, Shares
from koordpy.cluster.sharing import Sharing

requirements = st.builds(
    lambda cpu, memory: ResourceRequirements(requests=cpu | memory),
    st.sampled_from(({}, {"cpu": "100m"}, {"cpu": "2"})),
    st.sampled_from(({}, {"memory": "1Gi"}, {"koordinator.sh/gpu": 1})),
)
pods = st.builds(
    lambda containers, init, overhead, of_pod, statuses, condition: Pod(
        spec=PodSpec(
            containers=[Container(name=f"c{i}", resources=r) for i, r in enumerate(containers)],
            init_containers=[Container(name=f"i{i}", resources=r) for i, r in enumerate(init)],
            overhead=overhead,
            resources=of_pod,
        ),
        status=PodStatus(
            container_statuses=[
                ContainerStatus(name=f"c{i}", resources=r, allocated_resources=r.requests if r else {})
                for i, r in enumerate(statuses)
            ],
            conditions=condition,
        ),
    ),
    st.lists(requirements, min_size=1, max_size=2),
    st.lists(requirements, max_size=1),
    st.sampled_from(({}, {}, {"cpu": "250m"})),
    st.one_of(st.none(), st.none(), requirements),
    st.lists(st.one_of(st.none(), requirements), max_size=2),
    st.sampled_from(([], [], [Condition(type="PodResizePending", reason="Infeasible")])),
)


@given(st.lists(pods, min_size=1, max_size=6))
def test_cached_shares_equal_computed_ones(workloads: list[Pod]) -> None:
    axis = ResourceAxis()
    shares, share_parts = Shares(axis, lambda: None), Sharing().of(Pod)
    for pod in [*workloads, *workloads]:
        one = msgspec.json.decode(msgspec.json.encode(pod), type=Pod)
        share_parts(one)
        columns, amounts, nonzero = shares.of(one)
        expected = resources.pod_node_request_vector(pod)
        assert dict(zip(columns, amounts, strict=True)) == {
            **{axis.add(name): amount for name, amount in expected.items()},
            PODS: 1,
        }
        assert nonzero == resources.pod_nonzero_request(pod)


def test_the_pods_of_a_workload_have_one_share() -> None:
    shares, share_parts = Shares(ResourceAxis(), lambda: None), Sharing().of(Pod)
    first, second = (
        Pod(spec=PodSpec(containers=[Container(resources=ResourceRequirements(requests={"cpu": "1"}))]))
        for _ in range(2)
    )
    share_parts(first)
    share_parts(second)
    assert shares.of(first) is shares.of(second)


def requesting(uid: str, *names: str) -> Pod:
    containers = [Container(resources=ResourceRequirements(requests=dict.fromkeys(names, "2")))]
    return Pod(metadata=ObjectMeta(name=uid, uid=uid), spec=PodSpec(node_name="n0", containers=containers))


def test_pods_do_not_decide_how_many_columns_there_are() -> None:
    table = Cluster().nodes
    for number in range(30):
        table.observe_pod(requesting(f"p{number}", *(f"example.com/r{number}-{item}" for item in range(100))))
    assert len(table.resources) <= 4 + MOST_NAMES
    assert table.requested.shape[1] <= 4 + MOST_NAMES


def test_a_resource_counts_once_a_node_has_it() -> None:
    table = Cluster().nodes
    names = [f"example.com/r{item}" for item in range(100)]
    table.observe_pod(requesting("p", *names))
    assert names[99] not in table.resources
    status = NodeStatus(allocatable={names[99]: "3"})
    table.set_node(Node(metadata=ObjectMeta(name="n0"), status=status))
    requested = table.resources.named(table.requested[table.row_of("n0")])
    assert requested[names[99]] == requested[names[0]] == 2
    assert requested["pods"] == 1
    table.remove_pod("p")
    assert table.resources.named(table.requested[table.row_of("n0")]) == {}
