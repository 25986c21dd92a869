"""One pass over the nodes serves identical pods, and none of them is placed worse for it."""

import asyncio
import io
import json
import random
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from koordpy.api.core import Node, Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.commands.why import show
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.cycle.ranking import LOOKED_FOR
from koordpy.scheduling.cycle.rankings import LEFT_ALONE, SECONDS
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    PostBind,
    ReservationPairs,
    ReservationRestore,
    Score,
    SignPlugin,
    gates,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import PASS, SUCCESS, Status, Verdict
from koordpy.scheduling.profiles.registry import Place, build, installed

from ..worlds import Binder, bind_body, configuration, filter_body, node, pod, pod_document, world

BUSY = [node(f"n{i}", cpu="16", memory="64Gi") for i in range(4)]


class Looks(Plugin, SignPlugin, Filter):
    """Counts the nodes of each call."""

    name = "Looks"
    seen: list[int]

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        self.seen.append(len(nodes))
        return PASS


class Unsigned(Plugin, Score):
    name = "Unsigned"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class Restores(Plugin, ReservationRestore, PostBind):
    """Stores something in the state of every pod, but neither filters nor scores."""

    name = "Restores"

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        return SUCCESS

    def restore_reservations(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[Mapping[str, object], Status]:
        return {}, SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class Raises(Unsigned, SignPlugin):
    name = "Raises"

    def sign_pod(self, pod: Pod) -> Hashable | None:
        raise RuntimeError("cannot sign")


class Unhashable(Unsigned, SignPlugin):
    name = "Unhashable"

    def sign_pod(self, pod: Pod) -> Hashable | None:
        return cast("Hashable", [pod.metadata.name])


class Breaks(Unsigned, SignPlugin):
    """Cannot score two nodes of which one is n0."""

    name = "Breaks"

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        if len(nodes) == 2 and "n0" in nodes.names:
            raise RuntimeError("cannot score")
        return np.zeros(len(nodes), np.int64)


class Labelled(Unsigned, SignPlugin):
    """Uses one label, and evaluates pods with another one alone."""

    name = "Labelled"

    def sign_pod(self, pod: Pod) -> Hashable | None:
        labels = pod.metadata.labels
        return None if "alone" in labels else labels.get("kind", "")


def extender(
    nodes: Sequence[Node],
    *plugins: type[Plugin],
    args: Mapping[str, Any] | None = None,
    pods: Sequence[Pod] = (),
    enabled: bool = True,
    seed: int = 1,
) -> Extender:
    Looks.seen = []
    handle = Handle(world(nodes, pods), rng=random.Random(seed))
    own: list[type[Plugin]] = [Binder, Looks, *plugins]
    classes = dict(installed()) | {cls.name: cls for cls in own}
    config = configuration([Looks.name, *(cls.name for cls in plugins), *(args or {})], args)
    switched = FeatureGates(gates.SPECS, {gates.OPPORTUNISTIC_BATCHING: enabled})
    profiles = build(config, lambda _: handle, place=Place.EXTENDER, classes=classes, gates=switched)
    made = Extender(profiles, handle, node_choice="koordpy")
    for store in handle.cluster.stores:
        store.synced = True
    return made


def named(extender: Extender, document: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the node that filter keeps for a pod."""
    answer = json.loads(extender.filter(filter_body(document, names))[0])
    assert not answer["Error"]
    [kept] = answer["NodeNames"]
    return str(kept)


def placed(extender: Extender, document: Mapping[str, Any], names: Sequence[str]) -> str:
    """Filter and bind; return the node."""
    kept = named(extender, document, names)
    answer = json.loads(asyncio.run(extender.bind(bind_body(document, kept))))
    assert answer == {"Error": ""}
    return kept


def names_of(nodes: Sequence[Node]) -> list[str]:
    return [each.metadata.name for each in nodes]


def evaluated_for(extender: Extender, name: str) -> str:
    [decision] = extender.decisions.of("default", name)
    return decision.evaluated_for


# --- one pass for many -------------------------------------------------------------------------------


def test_the_second_identical_pod_is_evaluated_on_all_nodes_and_later_ones_on_none() -> None:
    nodes = [node(f"n{i}") for i in range(20)]
    made = extender(nodes)
    names = names_of(nodes)
    found = [named(made, pod_document(f"p{i}"), names[:10]) for i in range(8)]
    assert Looks.seen == [10, 20]
    assert len(set(found)) == 8
    assert set(found) <= set(names[:10])
    assert [evaluated_for(made, f"p{i}") for i in range(4)] == ["", "", "default/p1", "default/p1"]


def test_the_decision_of_such_a_pod_is_explained() -> None:
    nodes = [node(f"n{i}") for i in range(20)]
    made = extender(nodes)
    for i in range(3):
        placed(made, pod_document(f"p{i}"), names_of(nodes))
    [decision] = made.decisions.of("default", "p2")
    assert (decision.outcome, decision.chosen_by) == ("bound", "koordpy")
    assert (decision.evaluated_nodes, decision.feasible_nodes) == (20, 20)
    to = Console(file=io.StringIO(), record=True, width=200)
    show(to, [decision.model_dump(mode="json")])
    assert "the nodes were evaluated for default/p1, which has the same signature" in to.export_text()
    [life] = made.histories.lives("default", "p2")
    assert [step.what for step in life.steps] == ["seen", "filtered", "binding", "bound"]


def test_the_chosen_node_is_reported_even_if_many_nodes_that_were_no_candidates_are_better() -> None:
    nodes = [*(node(f"large{i}", cpu="64", memory="256Gi") for i in range(20)), node("s0"), node("s1")]
    made = extender(nodes)
    for i in range(2):
        chosen = placed(made, pod_document(f"p{i}"), ["s0", "s1"])
    [decision] = made.decisions.of("default", "p1")
    assert (decision.evaluated_nodes, len(decision.top_nodes)) == (22, 11)
    assert decision.top_nodes[-1].node == chosen
    to = Console(file=io.StringIO(), record=True, width=200)
    show(to, [decision.model_dump(mode="json")])
    lines = [line.split()[0] for line in to.export_text().splitlines()]
    assert lines[lines.index(chosen) - 1].startswith("large")


def test_unused_volume_names_and_labels_make_no_difference() -> None:
    made = extender(BUSY, Labelled)
    for i in range(3):
        document = pod_document(f"p{i}", volumes=[{"name": f"kube-api-access-{i}", "projected": {}}])
        document["metadata"]["labels"] = {"number": str(i)}
        named(made, document, names_of(BUSY))
    assert Looks.seen == [4, 4]


@pytest.mark.parametrize(
    ("label", "looks"), [({"kind": "a"}, [4, 4, 4]), ({"alone": "yes"}, [4, 4, 4]), ({"other": "a"}, [4, 4])]
)
def test_a_plugin_decides_what_is_signed(label: dict[str, str], looks: list[int]) -> None:
    made = extender(BUSY, Labelled)
    for i in range(3):
        document = pod_document(f"p{i}")
        document["metadata"]["labels"] = label if i == 2 else {}
        named(made, document, names_of(BUSY))
    assert Looks.seen == looks


@pytest.mark.parametrize("other", [{"cpu": "2"}, {"priority": 7}, {"nodeSelector": {"zone": "a"}}])
def test_pods_with_other_specs_are_not_the_same(other: dict[str, Any]) -> None:
    nodes = [node(f"n{i}", labels={"zone": "a"}) for i in range(4)]
    made = extender(nodes)
    for i in range(2):
        named(made, pod_document(f"p{i}"), names_of(nodes))
    named(made, pod_document("q", **other), names_of(nodes))
    assert Looks.seen == [4, 4, 4]


@pytest.mark.parametrize("namespace", ["default", "other"])
def test_pods_of_different_namespaces_differ(namespace: str) -> None:
    made = extender(BUSY)
    for i in range(3):
        document = pod_document(f"p{i}")
        document["metadata"]["namespace"] = namespace if i == 2 else "default"
        named(made, document, names_of(BUSY))
    assert len(Looks.seen) == (2 if namespace == "default" else 3)


@pytest.mark.parametrize("volume", [{"image": {"reference": "model"}}, {"emptyDir": {"medium": "Memory"}}])
def test_other_fields_of_volumes_than_their_names_count(volume: dict[str, Any]) -> None:
    made = extender(BUSY)
    for i in range(3):
        volumes = [{"name": "data", **(volume if i == 2 else {"projected": {}})}]
        named(made, pod_document(f"p{i}", volumes=volumes), names_of(BUSY))
    assert Looks.seen == [4, 4, 4]


# --- pods that are evaluated alone -------------------------------------------------------------------

SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ]
}
APART: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
}


@pytest.mark.parametrize("spec", [{"priority": 10**30}, {"volumes": [{"emptyDir": {"sizeLimit": 10**30}}]}])
def test_numbers_that_no_api_server_accepts_are_harmless(spec: dict[str, Any]) -> None:
    made = extender(BUSY)
    for i in range(4):
        named(made, pod_document(f"p{i}", **spec), names_of(BUSY))
    assert Looks.seen == [4] * 4


def test_pods_with_container_statuses_are_evaluated_one_by_one() -> None:
    made = extender(BUSY)
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
    for i in range(4):
        named(made, pod_document(f"p{i}", status=status), names_of(BUSY))
    assert Looks.seen == [4] * 4


@pytest.mark.parametrize("spec", [SPREAD, APART, {"resourceClaims": [{"name": "gpu"}]}])
def test_pods_that_depend_on_all_nodes_are_evaluated_one_by_one(spec: dict[str, Any]) -> None:
    made = extender(BUSY)
    for i in range(4):
        made.filter(filter_body(pod_document(f"p{i}", **spec), names_of(BUSY)))
    assert Looks.seen == [4] * 4


def test_pods_matched_by_anti_affinity_are_evaluated_one_by_one() -> None:
    shy = pod("shy", node_name="n0", **APART)
    made = extender(BUSY, pods=[shy])
    for i in range(4):
        document = pod_document(f"p{i}")
        document["metadata"]["labels"] = {"app": "x" if i else "y"}
        named(made, document, names_of(BUSY))
    assert Looks.seen == [4] * 4


@pytest.mark.parametrize("plugin", [Unsigned, Restores, Raises, Unhashable])
def test_a_plugin_that_does_not_sign_pods_disables_it(plugin: type[Plugin]) -> None:
    made = extender(BUSY, plugin)
    for i in range(4):
        named(made, pod_document(f"p{i}"), names_of(BUSY))
    assert Looks.seen == [4] * 4


def test_the_gate_disables_it() -> None:
    made = extender(BUSY, enabled=False)
    for i in range(4):
        named(made, pod_document(f"p{i}"), names_of(BUSY))
    assert Looks.seen == [4] * 4


def test_nominated_pods_disable_it() -> None:
    made = extender(BUSY)
    waiting = pod("waiting", status={"nominatedNodeName": "n0"})
    made.handle.cluster.store(Pod).apply(waiting)
    for i in range(4):
        named(made, pod_document(f"p{i}"), names_of(BUSY))
    assert len(Looks.seen) == 4 + 4  # n0 is also filtered without the nominated pod


# --- nodes that change -------------------------------------------------------------------------------


def test_a_node_that_received_a_pod_is_skipped_by_the_next() -> None:
    made = extender(BUSY)
    found = [named(made, pod_document(f"p{i}"), names_of(BUSY)) for i in range(4)]
    assert sorted(found[1:]) == sorted(set(found[1:]))


def test_a_deleted_node_is_not_chosen() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    made = extender(nodes)
    for i in range(2):
        placed(made, pod_document(f"p{i}"), names_of(nodes))
    for gone in nodes[:2]:
        made.handle.cluster.store(Node).discard(gone.metadata.name)
    assert named(made, pod_document("p2"), names_of(nodes)) == "n2"


@pytest.mark.parametrize("seed", range(4))
def test_released_rows_are_skipped(seed: int) -> None:
    nodes = [node(f"n{i}") for i in range(6)]
    made = extender(nodes, seed=seed)
    for i in range(2):
        named(made, pod_document(f"p{i}"), names_of(nodes))
    for gone in nodes[:5]:
        made.handle.cluster.store(Node).discard(gone.metadata.name)
    assert named(made, pod_document("p2"), names_of(nodes)) == "n5"


def test_a_withdrawn_promise_frees_its_node() -> None:
    nodes = [node("large", cpu="64", memory="256Gi"), *(node(f"s{i}", cpu="4") for i in range(3))]
    made = extender(nodes)
    names = names_of(nodes)
    for i in range(2):
        named(made, pod_document(f"p{i}"), names[1:])
    assert named(made, pod_document("q", cpu="500m"), names) == "large"
    named(made, pod_document("p2"), names[1:])
    assert named(made, pod_document("q", cpu="500m"), ["s0", "s1"]) != "large"
    assert named(made, pod_document("p3"), names) == "large"


def test_the_nodes_are_evaluated_again_after_a_while() -> None:
    made = extender(BUSY)
    clock = made.clock
    assert isinstance(clock, FakeClock)
    for i in range(2):
        named(made, pod_document(f"p{i}"), names_of(BUSY))
    clock.advance(SECONDS + 0.01)
    named(made, pod_document("p2"), names_of(BUSY))
    assert Looks.seen == [4, 4, 4]


def test_if_a_changed_node_may_be_the_best_all_are_evaluated_again() -> None:
    large, small = node("large", cpu="64", memory="256Gi"), [node(f"s{i}", cpu="4") for i in range(3)]
    made = extender([large, *small])
    for i in range(6):
        assert placed(made, pod_document(f"p{i}"), ["large", "s0", "s1", "s2"]) == "large"


def test_a_pass_that_serves_only_one_pod_is_not_repeated_for_a_while() -> None:
    nodes = [node("large", cpu="64"), *(node(f"s{i}", cpu="4") for i in range(40))]
    made = extender(nodes)
    for i in range(LEFT_ALONE):
        placed(made, pod_document(f"p{i}", cpu="10m", memory="1Mi"), ["large", "s0"])
    assert Looks.seen.count(len(nodes)) == 1


def test_a_bind_filters_a_node_again_that_has_changed_since() -> None:
    made = extender(BUSY, args={"NodeResourcesFit": {}})
    for i in range(2):
        placed(made, pod_document(f"p{i}"), names_of(BUSY))
    document = pod_document("late")
    kept = named(made, document, names_of(BUSY))
    made.handle.cluster.store(Pod).apply(pod("filler", cpu="16", node_name=kept))
    answer = json.loads(asyncio.run(made.bind(bind_body(document, kept))))
    assert "Insufficient cpu" in answer["Error"]


# --- candidates --------------------------------------------------------------------------------------


def test_only_candidates_are_chosen_even_few_among_many() -> None:
    nodes = [node(f"n{i:03}") for i in range(8 * LOOKED_FOR)]
    made = extender(nodes)
    names = names_of(nodes)
    for i in range(3):
        named(made, pod_document(f"p{i}"), names)
    for i in range(20):
        few = random.Random(i).sample(names, 40)
        assert named(made, pod_document(f"q{i}"), few) in few
    assert Looks.seen == [len(nodes)] * 2


def test_other_nodes_than_the_chosen_one_can_be_prioritized_even_if_scoring_fails() -> None:
    made = extender(BUSY, Breaks)
    for i in range(3):
        named(made, pod_document(f"p{i}"), names_of(BUSY))
    for i in range(3):
        answer = json.loads(made.prioritize(filter_body(pod_document(f"p{i}"), ["n0", "n1", "nowhere"])))
        assert answer == [{"Host": name, "Score": 0} for name in ("n0", "n1", "nowhere")]


def test_candidates_as_full_node_objects() -> None:
    made = extender(BUSY)
    for i in range(3):
        items = [{"metadata": {"name": name}} for name in names_of(BUSY)]
        body = json.dumps({"Pod": pod_document(f"p{i}"), "Nodes": {"items": items}}).encode()
        [kept] = json.loads(made.filter(body)[0])["Nodes"]["items"]
        assert kept in items
    assert Looks.seen == [4, 4]


# --- as good as a separate pass ----------------------------------------------------------------------


def least_allocated(cpu: int) -> dict[str, Any]:
    return {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": cpu}]}


def most_allocated(cpu: int) -> dict[str, Any]:
    return {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": cpu}]}


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 40), min_size=3, max_size=10),
    demands=st.lists(st.sampled_from(["100m", "700m", "2"]), min_size=1, max_size=2),
    strategy=st.sampled_from([least_allocated(1), most_allocated(1)]),
    seed=st.integers(0, 99),
)
def test_no_pod_is_placed_worse_than_by_a_separate_pass(
    sizes: list[int], demands: list[str], strategy: dict[str, Any], seed: int
) -> None:
    nodes = [node(f"n{i}", cpu=str(size)) for i, size in enumerate(sizes)]
    args = {"NodeResourcesFit": {"scoringStrategy": strategy}}
    made = extender(nodes, args=args, seed=seed)
    rng = random.Random(seed)
    for i in range(24):
        document = pod_document(f"p{i}", cpu=rng.choice(demands), memory="1Mi")
        names = rng.sample(names_of(nodes), rng.randint(2, len(nodes)))
        answer = json.loads(made.filter(filter_body(document, names))[0])
        if not answer["NodeNames"]:
            return
        [kept] = answer["NodeNames"]
        bound = [each for row in range(len(nodes)) for each in made.nodes.pods_on(row)]
        alone = extender(nodes, args=args, pods=bound, enabled=False)
        best = named(alone, document, names)
        [decision] = alone.decisions.of("default", f"p{i}")
        worth = {score.node: score.total for score in decision.top_nodes} or {best: 0}
        assert worth[kept] == worth[best]
        asyncio.run(made.bind(bind_body(document, kept)))


def test_packed_pods_are_evaluated_one_by_one() -> None:
    nodes = [node(f"n{i}") for i in range(10)]
    made = extender(nodes, args={"NodeResourcesFit": {"scoringStrategy": most_allocated(9)}})
    packed = {placed(made, pod_document(f"p{i}", cpu="1", memory="1Mi"), names_of(nodes)) for i in range(8)}
    assert len(packed) == 1


def prefers(**weights: int) -> dict[str, Any]:
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
        }
        for zone, weight in weights.items()
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize("is_ranked", [True, False])
def test_scores_of_other_nodes_than_the_candidates_make_no_difference(is_ranked: bool) -> None:
    nodes = [
        *(node(f"a{i}", labels={"zone": "a"}, cpu="16") for i in range(5)),
        *(node(f"b{i}", labels={"zone": "b"}) for i in range(8)),
        *(node(f"c{i}", labels={"zone": "c"}, cpu="64", memory="256Gi") for i in range(5)),
    ]
    made = extender(nodes)
    spec = prefers(b=10) if is_ranked else prefers(a=100, b=10)
    names = [name for name in names_of(nodes) if not name.startswith("a")]
    for i in range(6):
        found = named(made, pod_document(f"p{i}", cpu="3", memory="1Mi", **spec), names)
        assert found.startswith("b")
    assert (Looks.seen.count(len(names)) == 1) is is_ranked


def test_old_rankings_are_dropped() -> None:
    made = extender(BUSY)
    clock, batches = made.clock, made._filtering._batches
    assert isinstance(clock, FakeClock)
    assert batches is not None
    for cpu in ("1", "2", "3"):
        for i in range(2):
            named(made, pod_document(f"p{cpu}-{i}", cpu=cpu), names_of(BUSY))
        clock.advance(SECONDS + 0.01)
    assert [workload.ranking is None for workload in batches._rankings._workloads] == [True, True, False]
