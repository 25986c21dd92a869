"""Whole rounds of a profile that proves evictions, with trial scheduling by the real profiles."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import msgspec
import pytest
from prometheus_client import REGISTRY

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.meta import Condition, OwnerReference, format_time
from koordpy.cluster.cluster import Cluster
from koordpy.compose.trial_scheduling import TrialScheduling
from koordpy.descheduling.config.configuration import DeschedulerConfiguration
from koordpy.descheduling.config.loading import load
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.engine.framework import GROUP
from koordpy.descheduling.explain.decisions import Outcome
from koordpy.descheduling.interface import (
    SUCCESS,
    DeschedulePlugin,
    EvictOptions,
    EvictPlugin,
    FilterPlugin,
    Plugin,
    Status,
)
from koordpy.descheduling.proof import moved_pods
from koordpy.descheduling.proof.moved_pods import ANNOTATION_MOVED
from koordpy.descheduling.proof.successor import kind_of
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface.handle import Handle as SchedulingHandle
from koordpy.scheduling.profiles.registry import Place, build
from tests.unit.scheduling.worlds import configuration as scheduling_configuration
from tests.unit.scheduling.worlds import node as any_node
from tests.unit.scheduling.worlds import pod as any_pod
from tests.unit.scheduling.worlds import world

LANDINGS = "koordpy_descheduler_landings_total"


class Remover(EvictPlugin, FilterPlugin):
    """Removes pods from the cluster, but those named stuck."""

    name = "Remover"

    def filter(self, pod: Pod) -> bool:
        return True

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return True

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        if pod.metadata.name.startswith("stuck"):
            return False
        self.handle.cluster.store(Pod).discard(pod.metadata.key)
        return True


class Empty(DeschedulePlugin):
    """Empties the nodes in `emptied`, and wants no node with more than two pods."""

    name = "Empty"
    emptied: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        Empty.asked.append(node.metadata.name)
        if node.metadata.name in Empty.emptied:
            return "it is to be empty"
        return "it has two pods" if len(pods) >= 2 else None

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        for each in nodes:
            if each.metadata.name in Empty.emptied:
                for pod in self.handle.pods.all_on(each.metadata.name):
                    await self.handle.evictor.evict(pod, EvictOptions(reason="labelled"))
        return SUCCESS


@pytest.fixture(autouse=True)
def _empty_a() -> None:
    Empty.emptied = {"a"}
    Empty.asked = []


def node(name: str, **spec: Any) -> Node:
    made = any_node(name, **spec)
    made.status.conditions = [Condition(type="Ready", status="True")]
    return made


def pod(name: str, node_name: str, *, uid: str = "", **spec: Any) -> Pod:
    made = any_pod(name, node_name=node_name, uid=uid or f"uid-{name}", **spec)
    made.metadata.owner_references = [
        OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True)
    ]
    made.metadata.creation_timestamp = "2020-01-01T00:00:00Z"
    return made


def configuration(proof: str = "{window: 10m}", **settings: Any) -> DeschedulerConfiguration:
    text = f"""
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerConfiguration
        profiles:
        - name: a
          proof: {proof}
          plugins:
            deschedule: {{enabled: [{{name: Empty}}]}}
            evict: {{disabled: [{{name: "*"}}], enabled: [{{name: Remover}}]}}
            filter: {{disabled: [{{name: "*"}}], enabled: [{{name: Remover}}]}}
        """
    return load(text).model_copy(update=settings)


def descheduler(cluster: Cluster, config: DeschedulerConfiguration | None = None) -> Descheduler:
    handle = SchedulingHandle(cluster)
    profiles = build(scheduling_configuration((), None), lambda _: handle.sibling(), place=Place.EXTENDER)
    trials = TrialScheduling(cluster, lambda: profiles)
    return Descheduler(
        config or configuration(), Catalogue.of(GROUP, Plugin, [Remover, Empty]), cluster, trials=trials
    )


async def outcomes(target: Descheduler) -> dict[str, tuple[Outcome, str]]:
    current = await target.run_once()
    assert current.error == ""
    return {each.pod.removeprefix("default/"): (each.outcome, each.target) for each in current.evictions}


async def detail(target: Descheduler) -> str:
    [only] = (await target.run_once()).evictions
    return only.detail


async def test_a_pod_is_evicted_for_the_best_node_without_objection() -> None:
    nodes = [node("a", unschedulable=True), node("b"), node("c", cpu="4")]
    cluster = world(nodes, [pod("p", "a", cpu="4")])
    assert await outcomes(descheduler(cluster)) == {"p": (Outcome.EVICTED, "b")}
    assert not list(cluster.store(Pod))


async def test_a_pod_that_fits_no_node_stays_and_the_reason_is_recorded() -> None:
    cluster = world([node("a", cpu="4"), node("b", cpu="1")], [pod("p", "a", cpu="4")])
    cluster.store(Node).apply(node("a", cpu="4", unschedulable=True))
    target = descheduler(cluster)
    assert await outcomes(target) == {"p": (Outcome.UNPROVED, "")}
    text = await detail(target)
    assert "of 2 nodes" in text
    assert "NodeResourcesFit rejects 1 (Insufficient cpu)" in text
    assert [each.metadata.name for each in cluster.store(Pod)] == ["p"]
    assert Empty.asked == []


async def test_a_pod_stays_if_scheduling_would_put_it_where_the_plugin_objects() -> None:
    # The node to be emptied is the best one, as its pods are counted out: the pod would return to it.
    cluster = world([node("a", cpu="80", memory="320Gi"), node("b")], [pod("p", "a", cpu="4")])
    target = descheduler(cluster)
    assert await outcomes(target) == {"p": (Outcome.UNPROVED, "")}
    text = await detail(target)
    assert "node a, the best of 2 feasible nodes" in text
    assert text.endswith("Empty would move it again from there: it is to be empty")


async def test_scheduling_may_choose_any_of_the_best_nodes_so_none_may_be_objected_to() -> None:
    nodes = [node("a", unschedulable=True), node("b"), node("c")]
    cluster = world(nodes, [pod("p", "a", cpu="4")])
    Empty.emptied = {"a", "c"}
    text = await detail(descheduler(cluster))
    assert "node c, one of the 2 best of 2 feasible nodes" in text
    assert Empty.asked == ["b", "c"]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_earlier_victims_of_the_round_take_room(dry_run: bool) -> None:
    victims = [pod(f"p{i}", "a", cpu="3") for i in range(3)]
    cluster = world([node("a", unschedulable=True), node("b", cpu="4"), node("c", cpu="4")], victims)
    found = await outcomes(descheduler(cluster, configuration(dry_run=dry_run)))
    evicted = Outcome.DRY_RUN if dry_run else Outcome.EVICTED
    assert found == {
        "p0": (evicted, "b"),
        "p1": (evicted, "c"),
        "p2": (Outcome.UNPROVED, ""),
    }
    assert len(list(cluster.store(Pod))) == (3 if dry_run else 1)


async def test_each_round_starts_from_the_cluster_as_it_is() -> None:
    cluster = world([node("a", unschedulable=True), node("b", cpu="4")], [pod("p", "a", cpu="3")])
    target = descheduler(cluster, configuration(dry_run=True))
    for _ in range(2):
        assert await outcomes(target) == {"p": (Outcome.DRY_RUN, "b")}


async def test_a_pod_that_was_not_evicted_takes_no_room() -> None:
    victims = [pod("stuck", "a", cpu="3"), pod("sure", "a", cpu="3")]
    cluster = world([node("a", unschedulable=True), node("b", cpu="4")], victims)
    found = await outcomes(descheduler(cluster))
    assert found == {"stuck": (Outcome.REFUSED, ""), "sure": (Outcome.EVICTED, "b")}


async def test_an_eviction_that_raises_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world([node("a", unschedulable=True), node("b", cpu="4")], [pod("p", "a", cpu="3")])
    target = descheduler(cluster)

    async def fails(*_: object) -> bool:
        raise OSError("no connection")

    with monkeypatch.context() as broken:
        broken.setattr(Remover, "evict", fails)
        [refused] = (await target.run_once()).evictions
        assert refused.detail.endswith("OSError: no connection")
    assert not target._proofs.moved._expected  # type: ignore[union-attr]
    assert await outcomes(target) == {"p": (Outcome.EVICTED, "b")}


async def test_a_successor_may_appear_before_the_eviction_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    victims = [pod(f"p{number}", "a", cpu="3") for number in range(2)]
    cluster = world([node("a", unschedulable=True), node("b", cpu="7")], victims)
    target = descheduler(cluster)

    async def replaced_at_once(self: Remover, victim: Pod, options: EvictOptions) -> bool:
        cluster.store(Pod).discard(victim.metadata.key)
        successor = pod(f"{victim.metadata.name}-again", "b", cpu="3")
        successor.metadata.creation_timestamp = format_time(cluster.clock.now())
        cluster.store(Pod).apply(successor)
        return True

    with monkeypatch.context() as eager:
        eager.setattr(Remover, "evict", replaced_at_once)
        found = await outcomes(target)
    assert found == {"p0": (Outcome.EVICTED, "b"), "p1": (Outcome.EVICTED, "b")}  # each counts once
    Empty.emptied = {"b"}
    assert set((await outcomes(target)).values()) == {MOVED}


async def test_pods_that_have_ended_need_no_node() -> None:
    ended = pod("p", "a", cpu="40", status={"phase": "Failed"})
    cluster = world([node("a"), node("b")], [ended])
    assert await outcomes(descheduler(cluster)) == {"p": (Outcome.EVICTED, "")}


@pytest.mark.parametrize("proof", ["null", "{enabled: false}"])
async def test_without_proof_evictions_are_those_of_koordinator(proof: str) -> None:
    cluster = world([node("a", cpu="4"), node("b", cpu="1")], [pod("p", "a", cpu="4")])
    assert await outcomes(descheduler(cluster, configuration(proof))) == {"p": (Outcome.EVICTED, "")}


def test_the_window_is_validated_and_proof_needs_trial_scheduling() -> None:
    with pytest.raises(ConfigError, match=r'profiles\[0\]\.proof\.window: Invalid value: "-1s"'):
        configuration("{window: -1s}")
    with pytest.raises(ConfigError, match=r"profiles\[0\]\.proof\.windows"):
        configuration("{windows: 1s}")
    with pytest.raises(ConfigError, match="proof is enabled"):
        Descheduler(
            configuration(), Catalogue.of(GROUP, Plugin, [Remover, Empty]), world([node("a"), node("b")])
        )


# --- the window ----------------------------------------------------------------------------------


class Moving:
    """Pod p is moved from node a to b; its successor is q; then the plugin wants to empty b."""

    def __init__(self) -> None:
        nodes = [node("a", unschedulable=True), node("b"), node("c", cpu="4")]
        self.cluster = world(nodes, [pod("p", "a", cpu="4")])
        self.descheduler = descheduler(self.cluster)

    async def move(self) -> None:
        assert await outcomes(self.descheduler) == {"p": (Outcome.EVICTED, "b")}
        successor = pod("q", "", cpu="4")
        successor.metadata.creation_timestamp = format_time(self.cluster.clock.now())
        self.cluster.store(Pod).apply(successor)
        self.bind()
        Empty.emptied = {"b"}
        self.cluster.store(Node).apply(node("c", cpu="80", memory="320Gi"))  # the best node from now on

    def bind(self, annotation: str | None = None) -> None:
        known = self.cluster.store(Pod).get("default", "q")
        assert known is not None
        bound = pod("q", "b", cpu="4")
        bound.metadata.creation_timestamp = known.metadata.creation_timestamp
        if annotation is not None:
            bound.metadata.annotations = {ANNOTATION_MOVED: annotation}
        self.cluster.store(Pod).apply(bound)

    def advance(self, **amount: float) -> None:
        assert isinstance(self.cluster.clock, FakeClock)
        self.cluster.clock.advance(timedelta(**amount).total_seconds())


MOVED = (Outcome.RECENTLY_MOVED, "")


async def test_a_moved_pod_is_not_moved_again_within_the_window() -> None:
    moving = Moving()
    await moving.move()
    moving.advance(minutes=9, seconds=59)
    assert await outcomes(moving.descheduler) == {"q": MOVED}
    assert "moved from node a by Empty at 2026-" in await detail(moving.descheduler)
    moving.advance(seconds=1)
    assert await outcomes(moving.descheduler) == {"q": (Outcome.EVICTED, "c")}


@pytest.mark.parametrize("change", [{"unschedulable": True}, {"labels": {"disk": "broken"}}, {"cpu": "7"}])
async def test_a_pod_may_be_moved_again_if_its_node_has_really_changed(change: dict[str, Any]) -> None:
    moving = Moving()
    await moving.move()
    moving.cluster.store(Node).apply(node("b"))
    assert await outcomes(moving.descheduler) == {"q": MOVED}
    moving.cluster.store(Node).apply(node("b", **change))
    assert await outcomes(moving.descheduler) == {"q": (Outcome.EVICTED, "c")}


async def test_other_pods_of_the_same_controller_are_not_taken_for_the_successor() -> None:
    moving = Moving()
    moving.cluster.store(Pod).apply(pod("sibling", "b", cpu="1"))
    await moving.move()
    moving.cluster.store(Pod).apply(pod("later", "b", cpu="1"))
    found = await outcomes(moving.descheduler)
    assert found.pop("q") == MOVED
    assert {each for each, _ in found.values()} == {Outcome.EVICTED}
    assert set(found) == {"sibling", "later"}


async def test_the_annotation_of_a_successor_outlasts_a_restart() -> None:
    moving = Moving()
    await moving.move()
    [(successor, moved)] = moving.descheduler._proofs.moved._unwritten  # type: ignore[union-attr]
    text = msgspec.json.encode(moved).decode()
    assert successor.metadata.name == "q"
    moving.bind(text)
    restarted = descheduler(moving.cluster)
    assert await outcomes(restarted) == {"q": MOVED}
    moving.cluster.store(Node).apply(node("b", labels={"disk": "broken"}))
    assert await outcomes(restarted) == {"q": (Outcome.EVICTED, "c")}


@pytest.mark.parametrize(
    "annotation",
    [
        "",
        "{}",
        "[]",
        '{"profile": "a", "plugin": "Empty", "evictedAt": "tomorrow", "fromNode": "a"}',
        '{"profile": "a", "plugin": "Empty", "evictedAt": "2099-01-01T00:00:00Z", "fromNode": "a"}',
        '{"profile": "a", "plugin": "Other", "evictedAt": "2026-01-01T00:00:00Z", "fromNode": "a"}',
        "[" * 100_000,
    ],
)
async def test_owners_cannot_protect_a_pod_with_the_annotation(annotation: str) -> None:
    cluster = world([node("a", unschedulable=True), node("b")], [pod("p", "a", cpu="4")])
    [victim] = cluster.store(Pod)
    victim.metadata.annotations = {ANNOTATION_MOVED: annotation}
    cluster.store(Pod).apply(victim)
    assert await outcomes(descheduler(cluster)) == {"p": (Outcome.EVICTED, "b")}


async def test_what_is_kept_of_moves_is_bounded_and_ends_with_the_window() -> None:
    moving = Moving()
    moved = moving.descheduler._proofs.moved  # type: ignore[union-attr]
    await moving.move()
    assert (len(moved._expected), len(moved._landing), len(moved._moved)) == (0, 0, 1)
    moving.advance(minutes=11)
    [plugin] = moving.descheduler.frameworks[0].deschedule_plugins
    for number in range(moved_pods.MOST_EXPECTED + 10):
        victim = pod(f"v{number}", "a")
        moved.evicting(victim, "a", "Empty", plugin, "b", frozenset(), lambda _: None)
    assert (len(moved._expected), len(moved._moved)) == (moved_pods.MOST_EXPECTED, 0)
    assert moved._controllers == {"web": moved_pods.MOST_EXPECTED}
    moving.advance(minutes=11)
    moved.evicting(pod("last", "a"), "a", "Empty", plugin, "b", frozenset(), lambda _: None)
    assert (len(moved._expected), moved._controllers) == (1, {"web": 1})


async def test_a_victim_that_is_still_running_has_no_successor_yet() -> None:
    """A migration reserves a node first, and evicts much later, or never."""
    moving = Moving()
    moved = moving.descheduler._proofs.moved  # type: ignore[union-attr]
    [plugin] = moving.descheduler.frameworks[0].deschedule_plugins
    victim = moving.cluster.store(Pod).get("default", "p")
    assert victim is not None
    landed: list[str] = []
    moved.evicting(
        victim, "a", "Empty", plugin, "b", frozenset({"b"}), lambda pod: landed.append(pod.metadata.name)
    )
    moving.cluster.store(Pod).apply(pod("scaled-up", "b"))
    assert landed == []
    leaving = pod("p", "a", cpu="4")
    leaving.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    moving.cluster.store(Pod).apply(leaving)
    moving.cluster.store(Pod).apply(pod("successor", "b"))
    assert landed == ["p"]


async def test_pods_that_earlier_rounds_expect_on_a_node_count_there() -> None:
    """The plugin wants no node with more than two pods; the first two migrations take their time."""
    Empty.emptied = {"a"}
    nodes = [node("a", unschedulable=True), node("b")]
    cluster = world(nodes, [pod(f"p{number}", "a", cpu="1") for number in range(3)])
    target = descheduler(cluster, configuration("{window: 10m}"))
    evicted = await outcomes(target)
    assert [evicted[f"p{number}"][0] for number in range(3)] == [
        Outcome.EVICTED,
        Outcome.EVICTED,
        Outcome.UNPROVED,
    ]
    assert (await outcomes(target))["p2"] == (Outcome.UNPROVED, "")
    assert "it has two pods" in await detail(target)
    assert isinstance(cluster.clock, FakeClock)
    cluster.clock.advance(11 * 60)  # they never came
    assert (await outcomes(target))["p2"] == (Outcome.EVICTED, "b")


async def test_an_eviction_that_ends_without_success_has_no_successor_and_takes_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a migration that fails before it evicts: the evict plugin reports it later."""
    cluster = world([node("a", unschedulable=True), node("b", cpu="4")], [pod("p", "a", cpu="3")])
    target = descheduler(cluster, configuration("{window: 0s}"))

    async def begins(*_: object) -> bool:
        return True

    monkeypatch.setattr(Remover, "evict", begins)
    assert await outcomes(target) == {"p": (Outcome.EVICTED, "b")}
    remover = target.frameworks[0].evict_plugin
    assert remover is not None
    assert target._proofs is not None
    moved = target._proofs.moved
    assert list(moved.expected()) == ["b"]
    remover.handle.not_evicted("uid-p")
    assert moved.expected() == {}
    cluster.store(Pod).discard("default/p")
    cluster.store(Pod).apply(pod("q", "b", cpu="3"))  # scaled up
    assert not moved._moved
    assert not moved._unwritten


async def test_a_second_attempt_replaces_the_first_unless_it_is_refused() -> None:
    moving = Moving()
    moved = moving.descheduler._proofs.moved  # type: ignore[union-attr]
    [plugin] = moving.descheduler.frameworks[0].deschedule_plugins
    victim = pod("p", "a", cpu="4")
    for name in ("b", "c"):
        moved.evicting(victim, "a", "Empty", plugin, name, frozenset({name}), lambda _: None)
    assert list(moved.expected()) == ["c"]
    moved.stays(victim)
    assert list(moved.expected()) == ["b"]
    moved.stays(victim)
    assert moved.expected() == {}
    assert not moved._controllers


async def test_evictions_under_way_are_known_without_a_window() -> None:
    nodes = [node("a", unschedulable=True), node("b")]
    cluster = world(nodes, [pod(f"p{number}", "a", cpu="1") for number in range(3)])
    target = descheduler(cluster, configuration("{window: 0s}"))
    assert (await outcomes(target))["p2"] == (Outcome.UNPROVED, "")
    assert isinstance(cluster.clock, FakeClock)
    cluster.clock.advance(9 * 60)
    assert (await outcomes(target))["p2"] == (Outcome.UNPROVED, "")
    cluster.clock.advance(2 * 60)
    assert (await outcomes(target))["p2"] == (Outcome.EVICTED, "b")


async def test_an_evict_plugin_in_dry_run_is_recorded_so_and_leaves_nothing_to_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def pretends(*_: object) -> bool:
        return True

    monkeypatch.setattr(Remover, "evict", pretends)
    monkeypatch.setattr(Remover, "is_dry_run", True)
    victims = [pod(f"p{number}", "a", cpu="3") for number in range(2)]
    target = descheduler(world([node("a", unschedulable=True), node("b", cpu="4")], victims))
    assert await outcomes(target) == {"p0": (Outcome.DRY_RUN, "b"), "p1": (Outcome.UNPROVED, "")}
    assert target._proofs is not None
    assert target._proofs.moved.expected() == {}


async def test_pods_of_one_round_may_take_each_others_nodes() -> None:
    nodes = [node("a", unschedulable=True), node("b", cpu="4"), node("c", cpu="4"), node("d", cpu="1")]
    cluster = world(nodes, [pod(f"p{number}", "a", cpu="3") for number in range(2)])
    target = descheduler(cluster)
    assert await outcomes(target) == {"p0": (Outcome.EVICTED, "b"), "p1": (Outcome.EVICTED, "c")}
    expected = target._proofs.moved._expected  # type: ignore[union-attr]
    assert [eviction.nodes for eviction in expected.values()] == [{"b", "c"}] * 2


async def test_pods_of_different_kinds_do_not_share_their_nodes() -> None:
    """p0 may go to b or c, p1 only to c once b is expected to have p0."""
    nodes = [node("a", unschedulable=True), node("b", cpu="5"), node("c", cpu="5")]
    victims = [pod("p0", "a", cpu="1"), pod("p1", "a", cpu="4500m")]
    target = descheduler(world(nodes, victims))
    assert await outcomes(target) == {"p0": (Outcome.EVICTED, "b"), "p1": (Outcome.EVICTED, "c")}
    expected = target._proofs.moved._expected  # type: ignore[union-attr]
    assert [eviction.nodes for eviction in expected.values()] == [{"b", "c"}, {"c"}]


def test_pods_of_one_template_are_of_one_kind() -> None:
    first, second = pod("p", "a", cpu="1"), pod("q", "b", cpu="1")
    for each, name in ((first, "kube-api-access-x2x4z"), (second, "kube-api-access-abcde")):
        each.spec.volumes = msgspec.convert([{"name": name}], type(each.spec.volumes))
    assert kind_of(first) == kind_of(second)
    second.metadata.labels = {"app": "other"}
    assert kind_of(first) != kind_of(second)
    assert kind_of(first) != kind_of(pod("p", "a", cpu="2"))


@pytest.mark.parametrize(
    ("name", "result"), [("b", "proved"), ("c", "acceptable"), ("a", "other"), ("gone", "other")]
)
async def test_where_successors_land_is_counted(name: str, result: str) -> None:
    def landed() -> dict[str, float]:
        labels = ("proved", "acceptable", "other")
        found = {each: REGISTRY.get_sample_value(LANDINGS, {"node": each}) for each in labels}
        return {each: value or 0.0 for each, value in found.items()}

    nodes = [node("a", unschedulable=True), node("b"), node("c", cpu="4")]
    cluster = world(nodes, [pod("p", "a", cpu="4")])
    before = landed()
    assert await outcomes(descheduler(cluster)) == {"p": (Outcome.EVICTED, "b")}
    cluster.store(Pod).apply(pod("q", name, cpu="4"))
    assert landed() == {**before, result: before[result] + 1}


async def test_a_landing_is_judged_with_the_other_pods_of_the_node() -> None:
    nodes = [node("a", unschedulable=True), node("b"), node("c", cpu="4")]
    cluster = world(nodes, [pod("p", "a", cpu="4"), pod("x", "c", cpu="1"), pod("y", "c", cpu="1")])
    before = REGISTRY.get_sample_value(LANDINGS, {"node": "other"}) or 0.0
    assert await outcomes(descheduler(cluster)) == {"p": (Outcome.EVICTED, "b")}
    cluster.store(Pod).apply(pod("q", "c", cpu="1"))
    assert REGISTRY.get_sample_value(LANDINGS, {"node": "other"}) == before + 1
