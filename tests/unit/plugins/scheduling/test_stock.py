"""Both forms of every stock plugin agree, also after nodes and pods have changed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Filter, Plugin, PreFilter, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import each
from koordpy_plugins.scheduling.stock.nodeaffinity.plugin import NodeAffinity
from koordpy_plugins.scheduling.stock.nodename.plugin import NodeName
from koordpy_plugins.scheduling.stock.nodeports.plugin import NodePorts
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from koordpy_plugins.scheduling.stock.nodeunschedulable.plugin import NodeUnschedulable
from koordpy_plugins.scheduling.stock.tainttoleration.plugin import TaintToleration

PLUGINS: tuple[type[Plugin], ...] = (
    NodeAffinity, NodeName, NodePorts, NodeResourcesFit, NodeUnschedulable, TaintToleration,
)  # fmt: skip

effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
keys = st.sampled_from(["gpu", "disk"])
taints = st.lists(st.fixed_dictionaries({"key": keys, "effect": effects}), max_size=2)
tolerations = st.lists(
    st.fixed_dictionaries({"key": keys, "operator": st.just("Exists"), "effect": effects}), max_size=2
)
ports = st.lists(
    st.fixed_dictionaries({"hostPort": st.integers(79, 81), "hostIP": st.sampled_from(["", "1.1.1.1"])}),
    max_size=2,
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(["n0", "n1", "n2", "n3"]))
    return decode(
        Node,
        {
            "metadata": {"name": name, "uid": name, "labels": {"zone": draw(st.sampled_from(["a", "b"]))}},
            "spec": {"taints": draw(taints), "unschedulable": draw(st.booleans())},
            "status": {
                "allocatable": {
                    "cpu": draw(st.integers(0, 8)),
                    "memory": "8Gi",
                    "pods": draw(st.integers(0, 3)),
                }
            },
        },
    )


@st.composite
def pods(draw: st.DrawFn, bound: bool = True) -> Pod:
    name = draw(st.sampled_from(["p0", "p1", "p2", "p3"]))
    target = (
        draw(st.sampled_from(["n0", "n1", "n2", "n3"])) if bound else draw(st.sampled_from(["", "", "n1"]))
    )
    term: dict[str, Any] = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]
        }
    }
    return decode(
        Pod,
        {
            "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"},
            "spec": {
                "nodeName": target,
                "tolerations": draw(tolerations),
                "nodeSelector": draw(st.sampled_from([{}, {"zone": "a"}])),
                "affinity": draw(st.sampled_from([{}, affinity])),
                "containers": [
                    {
                        "name": "c",
                        "ports": draw(ports),
                        "resources": {"requests": {"cpu": draw(st.integers(0, 4))}},
                    }
                ],
            },
        },
    )


changes = st.lists(st.one_of(nodes(), pods(), st.sampled_from(["d/p0", "d/p1", "n0", "n1"])), max_size=20)


def play(cluster: Cluster, sequence: list[Any]) -> None:
    for change in sequence:
        if isinstance(change, str):
            cluster.store(Pod if "/" in change else Node).discard(change)
        else:
            cluster.store(type(change)).apply(change)


@settings(max_examples=100, deadline=None)
@given(st.lists(nodes(), min_size=1), changes, pods(bound=False), changes)
def test_both_forms_agree_before_and_after_changes(
    first: list[Node], before: list[Any], incoming: Pod, after: list[Any]
) -> None:
    cluster = Cluster()
    handle = Handle(cluster)
    plugins = [cls.make(handle) for cls in PLUGINS]
    for changes_ in ([*first, *before], after):
        play(cluster, changes_)
        fresh = Cluster()
        again = [cls.make(Handle(fresh)) for cls in PLUGINS]
        for type_ in (Node, Pod):
            fresh.store(type_).replace(list(cluster.store(type_)))
        candidates = handle.nodes.all()
        for plugin, rebuilt in zip(plugins, again, strict=True):
            state, other = CycleState(), CycleState()
            if isinstance(plugin, PreFilter) and isinstance(rebuilt, PreFilter):
                _, status = plugin.pre_filter(state, incoming, candidates)
                rebuilt.pre_filter(other, incoming, candidates)
                if status.is_skip:
                    continue
            assert isinstance(plugin, Filter)
            assert isinstance(rebuilt, Filter)
            verdict = plugin.filter_nodes(state, incoming, candidates)
            for node in each(candidates):
                expected = verdict.status(node.index)
                assert plugin.filter(state, incoming, node) == expected
                same, _ = fresh.nodes.select([node.name])
                assert rebuilt.filter_nodes(other, incoming, same).status(0) == expected
            if isinstance(plugin, Score):
                scores = plugin.score_nodes(state, incoming, candidates)
                assert [plugin.score(state, incoming, node) for node in each(candidates)] == scores.tolist()


@pytest.mark.parametrize(
    ("cls", "args", "message"),
    [
        (NodeResourcesFit, {"ignoredResourceGroups": ["a/b"]}, "resource group name can't contain '/'"),
        (NodeResourcesFit, {"scoringStrategy": {"type": "Best"}}, "args.scoringStrategy.type"),
        (NodeResourcesFit, {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "at least one point"),
        (
            NodeAffinity,
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 1}},
            "addedAffinity",
        ),
    ],
)
def test_wrong_arguments_are_refused(cls: type[Plugin], args: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cls.read_args(args, "args")
    assert message in str(caught.value)
