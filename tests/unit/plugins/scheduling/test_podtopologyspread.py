"""PodTopologySpread says of all nodes at once what a plain loop over nodes and pods says of each."""

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from koordpy.api import label_selector, node_affinity
from koordpy.api.config_model import ConfigError
from koordpy.api.core import (
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    TopologySpreadConstraint,
)
from koordpy.api.label_selector import NOTHING, Selector
from koordpy.api.scheme import decode
from koordpy.api.taints import find_untolerated
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy.scheduling.interface.status import Code, Status
from koordpy_plugins.scheduling.stock.podtopologyspread.default_selector import DefaultSelectors
from koordpy_plugins.scheduling.stock.podtopologyspread.plugin import PodTopologySpread

from .crowds import HOST, NAMES, ZONE, again, changes, crowds, filtered, play, pods

REASON = "node(s) didn't match pod topology spread constraints"
LABEL = f"{REASON} (missing required label)"


def made(cluster: Cluster, **args: Any) -> PodTopologySpread:
    assert len(cluster.nodes) >= 0
    cls = PodTopologySpread
    return cls.make(Handle(cluster), args)


# --- the plain form ------------------------------------------------------------------------------


class Plain:
    """One pod and one node at a time, as kube-scheduler evaluates them."""

    def __init__(self, pod: Pod, candidates: NodeSet, sort: str) -> None:
        self.pod = pod
        self.nodes = [(info.node, list(info.pods)) for info in each(candidates)]
        self.constraints = [
            item for item in pod.spec.topology_spread_constraints if item.when_unsatisfiable == sort
        ]

    def selector(self, item: TopologySpreadConstraint) -> Selector:
        selector = label_selector.of(item.label_selector)
        labels = self.pod.metadata.labels
        same = {key: labels[key] for key in item.match_label_keys if key in labels}
        if not same or selector == NOTHING:
            return selector
        return Selector([*label_selector.of_labels(same).requirements, *selector.requirements])

    def labelled(self, node: Node) -> bool:
        return all(item.topology_key in node.metadata.labels for item in self.constraints)

    def counts(self, item: TopologySpreadConstraint, node: Node) -> bool:
        if item.node_affinity_policy != "Ignore" and not node_affinity.required(self.pod.spec).matches_node(
            node
        ):
            return False
        tolerations = self.pod.spec.tolerations
        return item.node_taints_policy != "Honor" or not find_untolerated(node.spec.taints, tolerations)

    def number(self, item: TopologySpreadConstraint, others: list[Pod]) -> int:
        selector = self.selector(item)
        return sum(
            not selector.is_empty
            and other.metadata.deletion_timestamp is None
            and other.metadata.namespace == self.pod.metadata.namespace
            and selector.matches(other.metadata.labels)
            for other in others
        )

    def filter(self, node: Node) -> Status:
        for item in self.constraints:
            if item.topology_key not in node.metadata.labels:
                return Status.unresolvable(LABEL)
            domains: dict[str, int] = {}
            for other, placed in self.nodes:
                if self.labelled(other) and self.counts(item, other):
                    value = other.metadata.labels[item.topology_key]
                    domains[value] = domains.get(value, 0) + self.number(item, placed)
            least = min(domains.values(), default=2**31 - 1)
            if len(domains) < (1 if item.min_domains is None else item.min_domains):
                least = 0
            there = domains.get(node.metadata.labels[item.topology_key], 0)
            if there + self.selector(item).matches(self.pod.metadata.labels) - least > item.max_skew:
                return Status.unschedulable(REASON)
        return Status()

    def scores(self) -> list[int]:
        ranked = [node for node, _ in self.nodes if self.labelled(node)]
        raw: dict[str, int] = {}
        for node, placed in self.nodes:
            if not self.labelled(node):
                continue
            score = 0.0
            for item in self.constraints:
                value = node.metadata.labels[item.topology_key]
                number, size = self.number(item, placed), len(ranked)
                if item.topology_key != HOST:
                    size = len({other.metadata.labels[item.topology_key] for other in ranked})
                    number = sum(
                        self.number(item, here)
                        for other, here in self.nodes
                        if self.labelled(other)
                        and self.counts(item, other)
                        and other.metadata.labels[item.topology_key] == value
                    )
                score += number * math.log(size + 2) + (item.max_skew - 1)
            raw[node.metadata.name] = math.floor(score + 0.5)
        least, most = min(raw.values(), default=0), max(raw.values(), default=0)
        names = [node.metadata.name for node, _ in self.nodes]
        return [
            0 if name not in raw else 100 * (most + least - raw[name]) // most if most else 100
            for name in names
        ]


# --- tests ---------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(crowds(), pods(bound=False), changes())
def test_filter_agrees_with_the_plain_form_before_and_after_changes(
    crowd: list[Any], pod: Pod, after: list[Any]
) -> None:
    cluster = Cluster()
    plugin = made(cluster)
    for sequence in (crowd, after):
        play(cluster, sequence)
        candidates = cluster.nodes.all()
        plain = Plain(pod, candidates, "DoNotSchedule")
        answers = filtered(plugin, pod, candidates)
        assert answers == [plain.filter(node.node) for node in each(candidates)]
        fresh = again(cluster)
        same, _ = fresh.nodes.select(list(candidates.names))
        assert filtered(made(fresh), pod, same) == answers


@settings(max_examples=100, deadline=None)
@given(crowds(), pods(bound=False), pods(), st.sampled_from(["", *NAMES]))
def test_scores_agree_with_the_plain_form(crowd: list[Any], pod: Pod, other: Pod, place: str) -> None:
    cluster = Cluster()
    plugin = made(cluster)
    play(cluster, crowd)
    candidates = cluster.nodes.all().with_pods({place: [other, other]} if place else {})
    assume(len(candidates))
    state = CycleState()
    plain = Plain(pod, candidates, "ScheduleAnyway")
    if plugin.pre_score(state, pod, candidates).is_skip:
        assert not plain.constraints
        return
    scores = plugin.normalize_scores(state, pod, plugin.score_nodes(state, pod, candidates))
    assert scores.tolist() == plain.scores()


@settings(max_examples=100, deadline=None)
@given(
    crowds(),
    pods(bound=False),
    pods(terminating=False),
    st.sampled_from(NAMES),
)
def test_adding_a_pod_to_a_state_equals_counting_it_from_the_start(
    crowd: list[Any], pod: Pod, other: Pod, place: str
) -> None:
    cluster = Cluster()
    plugin = made(cluster)
    play(cluster, crowd)
    assume(cluster.store(Node).get("", place) is not None)
    # Kubernetes' quirk: an empty selector means no pod on a node, but it means one that comes.
    assume(
        all(not Plain(pod, cluster.nodes.all(), "").selector(item).is_empty for item in constraints_of(pod))
    )
    candidates = cluster.nodes.all()
    node = NodeInfo(candidates, list(candidates.names).index(place))
    other.metadata.name = other.metadata.uid = "another"
    other.spec.node_name = place
    state = CycleState()
    _, status = plugin.pre_filter(state, pod, candidates)
    without = filtered(plugin, pod, candidates)

    fresh = again(cluster)
    fresh.store(Pod).apply(other)
    same, _ = fresh.nodes.select(list(candidates.names))
    rebuilt = made(fresh)
    expected = filtered(rebuilt, pod, same)
    assert filtered(plugin, pod, candidates.with_pods({place: [other]})) == expected
    if not status.is_success:
        return
    what_if = state.clone()
    assert plugin.add_pod(what_if, pod, other, node).is_success
    assert statuses(plugin, what_if, pod, candidates) == expected
    assert statuses(plugin, state, pod, candidates) == without
    plugin.remove_pod(what_if, pod, other, node)
    assert statuses(plugin, what_if, pod, candidates) == without
    state = CycleState()
    rebuilt.pre_filter(state, pod, same)
    rebuilt.remove_pod(state, pod, other, NodeInfo(same, node.index))
    assert statuses(rebuilt, state, pod, same) == without


def statuses(plugin: PodTopologySpread, state: CycleState, pod: Pod, candidates: NodeSet) -> list[Status]:
    return [plugin.filter(state, pod, node) for node in each(candidates)]


def constraints_of(pod: Pod) -> list[TopologySpreadConstraint]:
    return pod.spec.topology_spread_constraints


def test_a_selector_that_cannot_be_read_breaks_the_attempt_where_it_counts() -> None:
    cluster = Cluster()
    plugin = made(cluster)
    bad = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
    for sort, codes in (("DoNotSchedule", (1, 5)), ("ScheduleAnyway", (5, 1))):
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": sort, "labelSelector": bad}
        pod = decode(Pod, {"spec": {"topologySpreadConstraints": [constraint]}})
        _, status = plugin.pre_filter(CycleState(), pod, cluster.nodes.all())
        assert (status.code, plugin.pre_score(CycleState(), pod, cluster.nodes.all()).code) == codes


def test_pods_of_a_service_are_spread_by_default() -> None:
    cluster = Cluster()
    plugin = made(cluster)
    for name, zone in (("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", None)):
        labels = {HOST: name} | ({ZONE: zone} if zone else {})
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": name, "labels": labels}}))
    metadata = {"namespace": "x", "labels": {"app": "a"}}
    placed = {"metadata": {**metadata, "name": "p", "uid": "p"}, "spec": {"nodeName": "n0"}}
    cluster.store(Pod).apply(decode(Pod, placed))
    pod = decode(Pod, {"metadata": metadata})
    candidates = cluster.nodes.all()
    state = CycleState()
    assert plugin.pre_score(state, pod, candidates).is_skip
    service = {"metadata": {"name": "s", "namespace": "x"}, "spec": {"selector": {"app": "a"}}}
    cluster.store(Service).apply(decode(Service, service))
    assert plugin.pre_score(state, pod, candidates).is_success
    scores = plugin.normalize_scores(state, pod, plugin.score_nodes(state, pod, candidates))
    best = dict(zip(candidates.names, scores.tolist(), strict=True))
    assert best["n2"] > best["n1"] > best["n0"]
    assert best["n3"] > best["n2"]  # a node without zone is no worse than one in an empty zone
    assert plugin.pre_filter(state, pod, candidates)[1].is_skip


@pytest.mark.parametrize("kind", [ReplicaSet, StatefulSet])
def test_the_owner_determines_the_default_selector(kind: type[ReplicaSet]) -> None:
    cluster = Cluster()
    selectors = DefaultSelectors(cluster)
    owner = {"apiVersion": "apps/v1", "kind": kind.__name__, "name": "o", "controller": True}
    metadata = {"namespace": "x", "labels": {"app": "a", "hash": "1"}, "ownerReferences": [owner]}
    pod = decode(Pod, {"metadata": metadata})
    assert selectors.of(pod).is_empty
    spec = {"selector": {"matchLabels": {"hash": "1"}}}
    cluster.store(kind).apply(decode(kind, {"metadata": {"name": "o", "namespace": "x"}, "spec": spec}))
    service = {"metadata": {"name": "s", "namespace": "x"}, "spec": {"selector": {"app": "a"}}}
    cluster.store(Service).apply(decode(Service, service))
    elsewhere = {"metadata": {"name": "s", "namespace": "y"}, "spec": {"selector": {"hash": "1"}}}
    cluster.store(Service).apply(decode(Service, elsewhere))
    assert str(selectors.of(pod)) == "app=a,hash=1"


def test_a_replication_controller_determines_the_default_selector() -> None:
    cluster = Cluster()
    owner = {"apiVersion": "v1", "kind": "ReplicationController", "name": "o", "controller": True}
    pod = decode(Pod, {"metadata": {"namespace": "x", "ownerReferences": [owner]}})
    controller = {"metadata": {"name": "o", "namespace": "x"}, "spec": {"selector": {"app": "a"}}}
    cluster.store(ReplicationController).apply(decode(ReplicationController, controller))
    assert str(DefaultSelectors(cluster).of(pod)) == "app=a"


def test_constraints_of_the_configuration_can_refuse_nodes() -> None:
    cluster = Cluster()
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    plugin = made(cluster, defaultingType="List", defaultConstraints=[constraint])
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n"}}))
    service = {"metadata": {"name": "s", "namespace": "x"}, "spec": {"selector": {"app": "a"}}}
    cluster.store(Service).apply(decode(Service, service))
    pod = decode(Pod, {"metadata": {"namespace": "x", "labels": {"app": "a"}}})
    [status] = filtered(plugin, pod, cluster.nodes.all())
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (LABEL,))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"maxSkew": 0}, "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"),
        ({"topologyKey": ""}, "defaultConstraints[0].topologyKey: Required value: can not be empty"),
        ({"topologyKey": "a b"}, 'defaultConstraints[0].topologyKey: Invalid value: "a b"'),
        ({"whenUnsatisfiable": ""}, "defaultConstraints[0].whenUnsatisfiable: Required value"),
        ({"whenUnsatisfiable": "Never"}, 'whenUnsatisfiable: Unsupported value: "Never"'),
        ({"labelSelector": {}}, "defaultConstraints[0].labelSelector: Forbidden: constraint must not define"),
    ],
)
def test_wrong_default_constraints_are_refused(changed: dict[str, Any], message: str) -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **changed}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    assert message in refusal(args)


def test_constraints_beside_those_of_the_system_are_refused() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    assert "when .defaultConstraints are not empty" in refusal({"defaultConstraints": [constraint]})
    args = {"defaultingType": "List", "defaultConstraints": [constraint, constraint]}
    assert 'args.defaultConstraints[1]: Duplicate value: "{topology.kubernetes.io/zone, DoNotSchedule}"' in (
        refusal(args)
    )


def refusal(args: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        PodTopologySpread.read_args(args, "args")
    return str(caught.value)
