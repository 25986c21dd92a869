"""InterPodAffinity says of all nodes at once what a plain loop over nodes and pods says of each."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from koordpy.api import label_selector
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Namespace, Node, Pod, PodAffinityTerm
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy.scheduling.interface.status import Code, Status
from koordpy_plugins.scheduling.stock.interpodaffinity.plugin import InterPodAffinity

from .crowds import NAMES, again, changes, crowds, filtered, play, pods


def made(cluster: Cluster, **args: Any) -> InterPodAffinity:
    assert len(cluster.nodes) >= 0
    return InterPodAffinity.make(Handle(cluster), args)


# --- the plain form ------------------------------------------------------------------------------


class Plain:
    """One pod and one node at a time, as kube-scheduler evaluates them."""

    def __init__(self, cluster: Cluster, pod: Pod, candidates: NodeSet) -> None:
        self.pod = pod
        self.namespaces = {ns.metadata.name: ns.metadata.labels for ns in cluster.store(Namespace)}
        self.placed = [
            (node.node, other) for node in each(candidates) for other in candidates.pods_on(node.row)
        ]

    def means(self, owner: Pod, term: PodAffinityTerm, other: Pod, *, incoming: bool) -> bool:
        selector = label_selector.of(term.namespace_selector)
        named = set(term.namespaces)
        if not named and term.namespace_selector is None:
            named = {owner.metadata.namespace}
        namespace = other.metadata.namespace
        labels: dict[str, str] = {} if incoming else self.namespaces.get(namespace, {})
        if incoming and term.namespace_selector is not None and not selector.is_empty:
            named |= {name for name, its in self.namespaces.items() if selector.matches(its)}
        return (namespace in named or selector.matches(labels)) and label_selector.of(
            term.label_selector
        ).matches(other.metadata.labels)

    def filter(self, node: Node) -> Status:
        mine = node.metadata.labels

        def near(term: PodAffinityTerm, other: Node) -> bool:
            key = term.topology_key
            return key in mine and other.metadata.labels.get(key) == mine[key]

        own = required(self.pod, "pod_affinity")
        if own:
            meant = [
                (where, other)
                for where, other in self.placed
                if all(self.means(self.pod, term, other, incoming=True) for term in own)
            ]
            nowhere = not any(term.topology_key in at.metadata.labels for term in own for at, _ in meant)
            first = nowhere and all(self.means(self.pod, term, self.pod, incoming=True) for term in own)
            if not all(term.topology_key in mine for term in own) or not (
                first or all(any(near(term, where) for where, _ in meant) for term in own)
            ):
                return Status.unresolvable("node(s) didn't match pod affinity rules")
        for term in required(self.pod, "pod_anti_affinity"):
            if any(
                near(term, where) and self.means(self.pod, term, other, incoming=True)
                for where, other in self.placed
            ):
                return Status.unschedulable("node(s) didn't match pod anti-affinity rules")
        for where, other in self.placed:
            for term in required(other, "pod_anti_affinity"):
                if near(term, where) and self.means(other, term, self.pod, incoming=False):
                    return Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return Status()

    def score(self, node: Node, hard: int) -> int | None:
        """The raw score of a node; None when no term at all finds anything anywhere."""
        total, found = 0, False
        for key, value, weight in self._finds(hard):
            found = True
            if node.metadata.labels.get(key) == value:
                total += weight
        return total if found else None

    def _finds(self, hard: int) -> Iterator[tuple[str, str, int]]:
        for where, other in self.placed:
            labels = where.metadata.labels
            wishes = [
                *((term, weight, self.pod, other, True) for term, weight in preferred(self.pod)),
                *((term, weight, other, self.pod, False) for term, weight in preferred(other)),
            ]
            if hard:
                wishes += [(t, hard, other, self.pod, False) for t in required(other, "pod_affinity")]
            for term, weight, owner, target, incoming in wishes:
                key = term.topology_key
                if key in labels and self.means(owner, term, target, incoming=incoming):
                    yield key, labels[key], weight


def required(pod: Pod, kind: str) -> list[PodAffinityTerm]:
    affinity = getattr(pod.spec.affinity, kind, None)
    return affinity.required_during_scheduling_ignored_during_execution if affinity else []


def preferred(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    found = []
    for kind, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1)):
        affinity = getattr(pod.spec.affinity, kind, None)
        for item in affinity.preferred_during_scheduling_ignored_during_execution if affinity else ():
            found.append((item.pod_affinity_term, sign * item.weight))
    return found


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
        plain = Plain(cluster, pod, candidates)
        answers = filtered(plugin, pod, candidates)
        assert answers == [plain.filter(node.node) for node in each(candidates)]
        fresh = again(cluster)
        same, _ = fresh.nodes.select(list(candidates.names))
        assert filtered(made(fresh), pod, same) == answers


@settings(max_examples=100, deadline=None)
@given(crowds(), pods(bound=False), st.sampled_from([0, 1, 7]), pods(), st.sampled_from(["", *NAMES]))
def test_scores_agree_with_the_plain_form(
    crowd: list[Any], pod: Pod, hard: int, other: Pod, place: str
) -> None:
    cluster = Cluster()
    plugin = made(cluster, hardPodAffinityWeight=hard)
    play(cluster, crowd)
    candidates = cluster.nodes.all().with_pods({place: [other, other]} if place else {})
    assume(len(candidates))
    plain = Plain(cluster, pod, candidates)
    expected = [plain.score(node.node, hard) for node in each(candidates)]
    state = CycleState()
    if plugin.pre_score(state, pod, candidates).is_skip:
        assert set(expected) == {None}
        return
    scores = plugin.score_nodes(state, pod, candidates)
    assert scores.tolist() == expected
    least, most = int(scores.min()), int(scores.max())
    normal = [int(100.0 * ((s - least) / (most - least))) if most > least else 0 for s in scores.tolist()]
    assert plugin.normalize_scores(state, pod, scores).tolist() == normal


@settings(max_examples=100, deadline=None)
@given(crowds(), pods(bound=False), pods(), st.sampled_from(NAMES))
def test_adding_a_pod_to_a_state_equals_counting_it_from_the_start(
    crowd: list[Any], pod: Pod, other: Pod, place: str
) -> None:
    cluster = Cluster()
    plugin = made(cluster)
    play(cluster, crowd)
    assume(cluster.store(Node).get("", place) is not None)
    candidates = cluster.nodes.all()
    node = NodeInfo(candidates, list(candidates.names).index(place))
    other.metadata.name = other.metadata.uid = "another"
    other.spec.node_name = place
    state = CycleState()
    _, status = plugin.pre_filter(state, pod, candidates)
    without = filtered(plugin, pod, candidates)
    shown = filtered(plugin, pod, candidates.with_pods({place: [other]}))

    fresh = again(cluster)
    fresh.store(Pod).apply(other)
    same, _ = fresh.nodes.select(list(candidates.names))
    rebuilt = made(fresh)
    expected = filtered(rebuilt, pod, same)
    assert shown == expected
    if status.is_success:
        what_if = state.clone()
        assert plugin.add_pod(what_if, pod, other, node).is_success
        assert statuses(plugin, what_if, pod, candidates) == expected
        assert statuses(plugin, state, pod, candidates) == without
        plugin.remove_pod(what_if, pod, other, node)
        assert statuses(plugin, what_if, pod, candidates) == without
    state = CycleState()
    _, status = rebuilt.pre_filter(state, pod, same)
    if status.is_success:
        rebuilt.remove_pod(state, pod, other, NodeInfo(same, node.index))
        assert statuses(rebuilt, state, pod, same) == without


def statuses(plugin: InterPodAffinity, state: CycleState, pod: Pod, candidates: NodeSet) -> list[Status]:
    return [plugin.filter(state, pod, node) for node in each(candidates)]


def test_the_first_of_pods_that_want_to_be_together_may_go_anywhere() -> None:
    cluster = Cluster()
    plugin = made(cluster)
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n", "labels": {"zone": "a"}}}))
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = decode(Pod, {"metadata": {"labels": {"app": "a"}}, "spec": {"affinity": affinity}})
    other = decode(Pod, {"metadata": {"labels": {"app": "b"}}, "spec": {"affinity": affinity}})
    assert [status.code for status in filtered(plugin, pod, cluster.nodes.all())] == [Code.SUCCESS]
    assert [status.reasons for status in filtered(plugin, other, cluster.nodes.all())] == [
        ("node(s) didn't match pod affinity rules",)
    ]


def test_a_term_that_cannot_be_read_refuses_the_pod_everywhere() -> None:
    cluster = Cluster()
    plugin = made(cluster)
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = decode(Pod, {"spec": {"affinity": affinity}})
    _, status = plugin.pre_filter(CycleState(), pod, cluster.nodes.all())
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons[0].startswith("parsing pod: ")
    assert plugin.pre_score(CycleState(), pod, cluster.nodes.all()).code is Code.ERROR


def test_a_pod_without_preferences_is_not_ranked_where_only_its_own_count() -> None:
    cluster = Cluster()
    plugin = made(cluster, ignorePreferredTermsOfExistingPods=True)
    assert plugin.pre_score(CycleState(), decode(Pod, {}), cluster.nodes.all()).is_skip


def test_a_weight_outside_of_0_to_100_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        InterPodAffinity.read_args({"hardPodAffinityWeight": 101}, "args")
    assert str(caught.value) == (
        "args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"
    )
