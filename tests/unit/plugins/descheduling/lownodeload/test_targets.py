from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Container, Node, NodeSpec, NodeStatus, Pod, PodSpec, ResourceRequirements
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy_plugins.descheduling.lownodeload.classification import is_over
from koordpy_plugins.descheduling.lownodeload.targets import BLOCK, Targets
from koordpy_plugins.descheduling.lownodeload.totals import Amounts
from koordpy_plugins.descheduling.lownodeload.usage import NodeUsage

HUGE = 64 * (1 << 30) * 1_000_000_000
"""64 GiB in billionths: more than 64 bits, and more than a double holds exactly."""

near_huge = st.integers(HUGE - 3, HUGE + 3)
amounts = st.integers(0, 5) | near_huge
targets = st.lists(st.tuples(amounts, amounts, st.integers(0, 3), st.booleans()), max_size=6)
pods = st.lists(st.tuples(amounts, st.integers(0, 3), st.booleans()), max_size=8)


def node_usage(index: int, used: int, high: int, cpu: int, in_pool: bool) -> NodeUsage:
    labels = {"pool": "x"} if in_pool else {}
    node = Node(
        metadata=ObjectMeta(name=f"n{index}", labels=labels),
        spec=NodeSpec(),
        status=NodeStatus(allocatable={"cpu": cpu}),
    )
    return NodeUsage(node, {}, {"memory": used}, {}, [], [], {}, high={"memory": high, "unseen": 0})


def make_pod(index: int, cpu: int, choosy: bool) -> Pod:
    return Pod(
        metadata=ObjectMeta(namespace="a", name=f"p{index}"),
        spec=PodSpec(
            containers=[Container(resources=ResourceRequirements(requests={"cpu": cpu}))],
            node_selector={"pool": "x"} if choosy else {},
        ),
    )


def place_one_by_one(pod: Pod, used: Amounts, nodes: list[NodeUsage], fit: NodeFit) -> bool:
    """The rule without columns."""
    for node in nodes:
        added = {"memory": node.usage["memory"] + used["memory"]}
        if fit.fits(pod, node.node) and not is_over(added, node.high):
            node.usage.update(added)
            return True
    return False


@given(targets, pods, st.sampled_from([1, 2, BLOCK]))
def test_columns_find_the_same_node_as_asking_one_by_one(
    given_targets: list[tuple[int, int, int, bool]], given_pods: list[tuple[int, int, bool]], block: int
) -> None:
    fit = NodeFit(NodePods(Cluster()))
    ours = [node_usage(index, *values) for index, values in enumerate(given_targets)]
    plain = [node_usage(index, *values) for index, values in enumerate(given_targets)]
    columns = Targets(ours, False, fit, block)
    for index, (memory, cpu, choosy) in enumerate(given_pods):
        pod, used = make_pod(index, cpu, choosy), {"memory": memory}
        assert columns.place(pod, used) is place_one_by_one(pod, used, plain, fit)
        assert [node.usage for node in ours] == [node.usage for node in plain]
