"""NodeResourcesFitPlus, ScarceResourceAvoidance: Koordinator's examples, and both forms of Score."""

from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Plugin, PreScore, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import each
from koordpy_plugins.scheduling.noderesourcesfitplus.plugin import NodeResourcesFitPlus
from koordpy_plugins.scheduling.scarceresourceavoidance.plugin import ScarceResourceAvoidance

GPU = "nvidia.com/gpu"
FIT_PLUS = {
    "resources": {
        GPU: {"type": "MostAllocated", "weight": 2},
        "cpu": {"type": "LeastAllocated", "weight": 1},
        "memory": {"type": "LeastAllocated", "weight": 1},
    }
}


def pod(requests: dict[str, Any], node_name: str = "", **spec: Any) -> Pod:
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return decode(
        Pod,
        {
            "metadata": {"name": f"p-{node_name}", "namespace": "d", "uid": f"uid-{node_name}"},
            "spec": {"nodeName": node_name, "containers": containers, **spec},
        },
    )


def scores(
    cls: type[Plugin], args: dict[str, Any], incoming: Pod, nodes: dict[str, dict[str, Any]], *bound: Pod
) -> dict[str, int]:
    """Score by both forms, which must agree."""
    cluster = Cluster()
    table = cluster.nodes
    for name, allocatable in nodes.items():
        document = {"metadata": {"name": name}, "status": {"allocatable": allocatable}}
        cluster.store(Node).apply(decode(Node, document))
    for each_pod in bound:
        cluster.store(Pod).apply(each_pod)
    plugin = cls.make(Handle(cluster), args)
    assert isinstance(plugin, PreScore)
    assert isinstance(plugin, Score)
    state, everything = CycleState(), table.all()
    assert plugin.pre_score(state, incoming, everything).is_success
    batch = plugin.score_nodes(state, incoming, everything).tolist()
    assert batch == [plugin.score(state, incoming, node) for node in each(everything)]
    return dict(zip(everything.names, batch, strict=True))


class TestNodeResourcesFitPlus:
    nodes = {name: {"cpu": 96, "memory": "512Gi", GPU: 8} for name in ("busy", "empty")}

    def test_requests_that_add_up_beyond_64_bits_are_scored(self) -> None:
        # The container without a request for memory counts with a default.
        requests = ({"memory": "8Ei"}, {"cpu": 1})
        containers = [{"name": str(n), "resources": {"requests": each}} for n, each in enumerate(requests)]
        incoming = pod({}, containers=containers)
        found = scores(NodeResourcesFitPlus, FIT_PLUS, incoming, self.nodes)
        assert found["busy"] == found["empty"]

    def test_each_resource_ranks_by_its_own_strategy(self) -> None:
        incoming = pod({"cpu": 16, "memory": "32Gi", GPU: 2, "ephemeral-storage": "10Gi"})
        running = pod({"cpu": 16, "memory": "32Gi", GPU: 4}, "busy")
        got = scores(NodeResourcesFitPlus, FIT_PLUS, incoming, self.nodes, running)
        assert got == {"busy": 75, "empty": 56}

    def test_without_a_resource_that_counts_every_node_scores_100(self) -> None:
        assert scores(NodeResourcesFitPlus, {}, pod({"cpu": 1}), self.nodes) == {"busy": 100, "empty": 100}

    def test_a_resource_that_no_node_has_scores_0_but_weighs(self) -> None:
        args = {
            "resources": {
                "example.com/x": {"type": "MostAllocated", "weight": 3},
                "cpu": {"type": "MostAllocated", "weight": 1},
            }
        }
        got = scores(NodeResourcesFitPlus, args, pod({"cpu": 96, "example.com/x": 1}), self.nodes)
        assert got == {"busy": 25, "empty": 25}

    @pytest.mark.parametrize(
        ("init", "counted"),
        [
            ([("1", True), ("5", False)], 5),
            ([("10", False)], 10),
            ([("1", True)], 3),
        ],
    )
    def test_an_init_container_is_compared_with_what_comes_before_it(
        self, init: list[tuple[str, bool]], counted: int
    ) -> None:
        containers = [
            {
                "name": f"i{place}",
                "resources": {"requests": {"cpu": cpu}},
                **({"restartPolicy": "Always"} if sidecar else {}),
            }
            for place, (cpu, sidecar) in enumerate(init)
        ]
        args = {"resources": {"cpu": {"type": "MostAllocated", "weight": 1}}}
        got = scores(
            NodeResourcesFitPlus, args, pod({"cpu": 2}, initContainers=containers), {"n": {"cpu": 100}}
        )
        assert got == {"n": counted}

    def test_overhead_counts_in_thousandths_of_cpu(self) -> None:
        args = {"resources": {"cpu": {"type": "MostAllocated", "weight": 1}}}
        incoming = pod({"cpu": "500m"}, overhead={"cpu": "250m"})
        assert scores(NodeResourcesFitPlus, args, incoming, {"n": {"cpu": 1}}) == {"n": 75}

    def test_score_without_pre_score_fails_with_the_nodes_name(self) -> None:
        cluster = Cluster()
        table = cluster.nodes
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n"}}))
        plugin = NodeResourcesFitPlus.make(Handle(cluster))
        with pytest.raises(LookupError, match='"n" from PreScore'):
            plugin.score_nodes(CycleState(), pod({}), table.all())


class TestScarceResourceAvoidance:
    args = {"resources": [GPU]}

    @pytest.mark.parametrize(
        ("allocatable", "score"),
        [
            ({"cpu": 1, "memory": 1, GPU: 1, "xx.xx/xx": 1}, 50),
            ({"cpu": 1, "memory": 1}, 100),
            ({"cpu": 1, "memory": 1, GPU: 1}, 0),
            ({"cpu": 1, "memory": 1, "ephemeral-storage": 1, GPU: 1, "rdma/hca": 1}, 66),
            ({"cpu": 1, "memory": 1, GPU: 0, "pods": 10, "foo": 1}, 100),
        ],
    )
    def test_the_share_of_unused_resources_that_are_not_scarce(
        self, allocatable: dict[str, Any], score: int
    ) -> None:
        got = scores(ScarceResourceAvoidance, self.args, pod({"cpu": 1, "memory": 1}), {"n": allocatable})
        assert got == {"n": score}

    def test_scores_follow_nodes_that_change_come_and_go(self) -> None:
        cluster = Cluster()
        table = cluster.nodes
        plugin = ScarceResourceAvoidance.make(Handle(cluster), self.args)
        state, incoming = CycleState(), pod({"cpu": 1})
        plugin.pre_score(state, incoming, table.all())

        def put(name: str, **allocatable: int) -> None:
            amounts = {"cpu": 1, **{key.replace("gpu", GPU): value for key, value in allocatable.items()}}
            document = {"metadata": {"name": name, "uid": name}, "status": {"allocatable": amounts}}
            cluster.store(Node).apply(decode(Node, document))

        def now() -> dict[str, int]:
            nodes = table.all()
            return dict(zip(nodes.names, plugin.score_nodes(state, incoming, nodes).tolist(), strict=True))

        put("n", gpu=1)
        assert now() == {"n": 0}
        put("n", gpu=1, memory=1)
        assert now() == {"n": 50}
        for place in range(100):
            put(f"m{place}")
        assert now() == {"n": 50, **{f"m{place}": 100 for place in range(100)}}
        cluster.store(Node).discard("n")
        put("other", gpu=1)
        assert now()["other"] == 0

    def test_a_pod_that_needs_the_scarce_resource_avoids_nothing(self) -> None:
        got = scores(ScarceResourceAvoidance, self.args, pod({GPU: 1}), {"n": {"cpu": 1, GPU: 1}})
        assert got == {"n": 100}
