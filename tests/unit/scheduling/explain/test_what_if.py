"""Whole cycles, one after the other, without side effects."""

from datetime import timedelta
from typing import Any

import pytest

from koordpy.api.core import Node, Pod, PodDisruptionBudget
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.explain import what_if
from koordpy.scheduling.explain.cause import Cause, Certainty
from koordpy.scheduling.explain.explanations import answer
from koordpy.scheduling.explain.what_if import Forecast, PlacedPod, Rehearsal, forecast
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Filter, Plugin, PreEnqueue, PreFilter, Score
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.testing.cluster import cluster as make_cluster
from koordpy.testing.cluster import settle
from koordpy.testing.objects import reservation
from tests.unit.scheduling.worlds import NOW, configuration, framework, node, pod, world


def whole(cluster: Cluster, *plugins: str, args: dict[str, Any] | None = None) -> Framework:
    profiles = build(configuration(plugins, args), lambda _: Handle(cluster), place=Place.EXTENDER)
    found = profiles.whole_of("")
    assert found is not None
    return found


def copies(count: int, **options: Any) -> list[Pod]:
    return [pod(f"p{i}", **options) for i in range(count)]


async def tell(cluster: Cluster, framework: Framework, pods: list[Pod]) -> Forecast:
    return await forecast(framework, cluster, pods)


async def test_pods_fill_the_nodes_and_the_rest_get_the_reason() -> None:
    cluster = world([node("a", cpu="2"), node("b", cpu="3")])
    found = await tell(cluster, whole(cluster), copies(7, cpu="1"))
    assert found.by_node == {"b": 3, "a": 2}
    assert found.stopped is not None
    assert (found.stopped.pod, found.stopped.pods, found.stopped.stage) == ("p5", 2, "Filter")
    assert found.stopped.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert found.stopped.preemption_might_help == 2


async def test_host_ports_are_taken_by_the_pods_before() -> None:
    cluster = world([node("a"), node("b")])
    containers = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    found = await tell(cluster, whole(cluster), copies(3, containers=containers))
    assert sorted(found.by_node) == ["a", "b"]
    assert found.stopped is not None
    assert "free ports" in found.stopped.message


async def test_spread_constraints_count_the_pods_before() -> None:
    nodes = [node(f"{zone}{i}", labels={"zone": zone}) for zone in "ab" for i in range(2)]
    cluster = world([*nodes, node("a9", cpu="100", labels={"zone": "a"})])
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pods = copies(6, topologySpreadConstraints=[constraint])
    for one in pods:
        one.metadata.labels = {"app": "web"}
    found = await tell(cluster, whole(cluster), pods)
    assert [sorted((one.node[0], other.node[0])) for one, other in _pairs(found)] == [["a", "b"]] * 3


def _pairs(found: Forecast) -> list[tuple[PlacedPod, PlacedPod]]:
    return list(zip(found.placed[::2], found.placed[1::2], strict=True))


async def test_the_load_of_earlier_pods_counts() -> None:
    cluster = world([])
    made = whole(
        cluster, "LoadAwareScheduling", args={"LoadAwareScheduling": {"usageThresholds": {"cpu": 50}}}
    )
    cluster.store(Node).apply(node("a", cpu="10"))
    status = {
        "updateTime": format_time(NOW - timedelta(seconds=5)),
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}},
    }
    metric = decode(NodeMetric, {"metadata": {"name": "a"}, "status": status})
    cluster.store(NodeMetric).apply(metric)
    found = await tell(cluster, made, copies(9, cpu="1"))
    # used 1 of 10, and 0.85 for each pod: the fifth would lift it to 52 %
    assert found.by_node == {"a": 4}
    assert found.stopped is not None
    assert "usage exceed threshold" in found.stopped.message
    [first, *_] = found.placed
    scores = [item.top_nodes[0].plugins["LoadAwareScheduling"] for item in found.placed]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]
    assert first.feasible_nodes == 1


class Waits(Plugin, PreEnqueue, Score):
    """Queues nothing."""

    name = "Waits"

    def pre_enqueue(self, pod: Pod) -> Status:
        return Status.unresolvable("not yet")

    def score(self, state: CycleState, pod: Pod, node: Any) -> int:
        return 0


class Refuses(Plugin, PreFilter):
    """Rejects every pod."""

    name = "Refuses"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> Any:
        return None, Status.unresolvable("no quota")


class Breaks(Plugin, Filter):
    """Fails."""

    name = "Breaks"

    def filter(self, state: CycleState, pod: Pod, node: Any) -> Status:
        raise ValueError("broken")


class Spies(Plugin, Filter):
    """Records which pods were placed before."""

    name = "Spies"
    seen: list[list[str]]

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.seen = []

    def filter(self, state: CycleState, pod: Pod, node: Any) -> Status:
        placed = state.read(PLACED) or {}
        self.seen.append([other.metadata.name for pods in placed.values() for other in pods])
        assert not state.measured
        return SUCCESS


@pytest.mark.parametrize(
    ("plugin", "stage", "message"),
    [
        (Waits, "PreEnqueue", "Waits: not yet"),
        (Refuses, "PreFilter", "Refuses: no quota"),
        (Breaks, "Filter", 'Breaks: running Filter plugin "Breaks": ValueError: broken'),
    ],
)
async def test_the_stage_that_stops_a_pod_is_reported(plugin: type[Plugin], stage: str, message: str) -> None:
    cluster = world([node("a")])
    found = await tell(cluster, framework(cluster, plugin), copies(2))
    assert found.stopped is not None
    assert (found.stopped.stage, found.stopped.message) == (stage, message)
    assert (found.stopped.pods, found.placed) == (2, [])


async def test_plugins_with_their_own_state_see_earlier_pods() -> None:
    cluster = world([node("a")])
    made = framework(cluster, Spies)
    await tell(cluster, made, copies(3))
    [spy] = [plugin for plugin in made.plugins if isinstance(plugin, Spies)]
    assert spy.seen == [[], ["p0"], ["p0", "p1"]]


async def test_a_what_if_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world([node("a")])
    assert isinstance(cluster.clock, FakeClock)
    monkeypatch.setattr(what_if, "LONGEST", 0.0)
    found = await tell(cluster, whole(cluster), copies(3))
    assert found.stopped is not None
    assert (found.stopped.stage, found.stopped.pods) == ("limit", 3)


async def test_cluster_changes_meanwhile_count_for_the_next_pod() -> None:
    cluster = world([node("a", cpu="3")])
    rehearsal = Rehearsal(whole(cluster), cluster)
    first = rehearsal.try_pod(pod("p0", cpu="1"))
    assert first.node == "a"
    rehearsal.place(pod("p0", cpu="1"), "a")
    cluster.store(Pod).apply(pod("real", cpu="1", node_name="a"))
    assert rehearsal.try_pod(pod("p1", cpu="2")).node == ""
    assert rehearsal.try_pod(pod("p1", cpu="1")).node == "a"
    cluster.store(Node).apply(node("b", cpu="8"))
    assert rehearsal.try_pod(pod("p1", cpu="2")).node == "b"


def important(name: str, cpu: str = "4", **spec: Any) -> Pod:
    return pod(name, cpu=cpu, priority=1000, **spec)


async def test_the_node_with_the_cheapest_evictions_is_reported_with_the_victims() -> None:
    placed = [
        pod("a1", cpu="3", node_name="a", priority=5),
        pod("a2", cpu="3", node_name="a", priority=7),
        pod("b1", cpu="5", node_name="b", priority=900),
        pod("c1", cpu="5", node_name="c", priority=2000),
    ]
    cluster = world([node(name, cpu="8") for name in "abc"], placed)
    found = await tell(cluster, whole(cluster), [important("p")])
    assert found.stopped is not None
    eviction = found.stopped.eviction
    assert eviction is not None
    assert (eviction.node, eviction.candidates, eviction.pdb_violations) == ("a", 2, 0)
    assert [(victim.name, victim.priority) for victim in eviction.victims] == [("a1", 5)]
    assert len(list(cluster.nodes.pods_on(cluster.nodes.row_of("a") or 0))) == 2


async def test_pods_of_the_same_what_if_are_no_victims() -> None:
    cluster = world([node("a", cpu="4")], [])
    found = await tell(cluster, whole(cluster), [important("p0"), important("p1")])
    assert found.by_node == {"a": 1}
    assert found.stopped is not None
    assert found.stopped.eviction is None


@pytest.mark.parametrize("spec", [{"preemptionPolicy": "Never"}, {"nodeSelector": {"no": "where"}}])
async def test_no_evictions_are_searched_if_not_allowed_or_not_helpful(spec: Any) -> None:
    cluster = world([node("a", cpu="4")], [pod("low", cpu="4", node_name="a")])
    found = await tell(cluster, whole(cluster), [important("p", **spec)])
    assert found.stopped is not None
    assert found.stopped.eviction is None


async def test_budgets_that_would_be_violated_are_counted() -> None:
    low = pod("low", cpu="4", node_name="a")
    low.metadata.labels = {"app": "db"}
    cluster = world([node("a", cpu="4")], [low])
    document = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    cluster.store(PodDisruptionBudget).apply(decode(PodDisruptionBudget, document))
    found = await tell(cluster, whole(cluster), [important("p")])
    assert found.stopped is not None
    assert found.stopped.eviction is not None
    assert found.stopped.eviction.pdb_violations == 1


def test_an_explanation_names_possible_victims() -> None:
    cluster = world([node("a", cpu="4")], [pod("low", cpu="4", node_name="a")])
    rehearsal = Rehearsal(whole(cluster), cluster)
    trial = rehearsal.try_pod(important("p"))
    status = answer(important("p"), trial, rehearsal.find_evictions(important("p"), trial), NOW, 100)
    assert (status["schedulable"], status["schedulableAfterPreemption"]) == (False, True)
    [domain] = status["detailedExplanation"]
    assert domain["nodePossibleVictims"] == [
        {
            "nodeName": "a",
            "possibleVictims": [{"namespace": "default", "name": "low", "uid": "uid-low"}],
        }
    ]


def test_a_pod_that_fits_alone_is_not_schedulable_while_its_gang_does_not_fit() -> None:
    cluster = world([node("a", cpu="4")])
    rehearsal = Rehearsal(whole(cluster), cluster)
    trial = rehearsal.try_pod(important("p"))
    cause = Cause(cause="GangIncomplete", certainty=Certainty.CERTAIN, message="gang g lacks pods", fix="")
    findings = rehearsal.find_evictions(important("p"), trial)
    alone = answer(important("p"), trial, findings, NOW, 100)
    assert (alone["schedulable"], alone["failedMessage"]) == (True, None)
    status = answer(important("p"), trial, findings, NOW, 100, [cause])
    assert (status["schedulable"], status["failedMessage"]) == (False, "gang g lacks pods")


async def test_owners_use_reserved_resources_and_other_pods_do_not() -> None:
    cluster = make_cluster()
    framework = whole(cluster, "Reservation")
    cluster.store(Node).apply(node("n", cpu="8"))
    held = reservation("r", cpu="4", on="n", spec={"allocateOnce": False})
    cluster.store(Reservation).apply(held)
    settle(cluster)
    owners, others = copies(6, cpu="2"), copies(6, cpu="2")
    for owner in owners:
        owner.metadata.labels = {"reserved-by": "r"}
    assert (await tell(cluster, framework, owners)).by_node == {"n": 4}
    assert (await tell(cluster, framework, others)).by_node == {"n": 2}


# --- removed pods --------------------------------------------------------------------------------


def test_removed_pods_leave_their_resources_to_later_ones() -> None:
    victim = pod("victim", cpu="3", node_name="a")
    cluster = world([node("a", cpu="4")], [victim])
    rehearsal = Rehearsal(whole(cluster), cluster)
    assert rehearsal.try_pod(pod("p", cpu="4")).node == ""
    rehearsal.remove(victim)
    assert rehearsal.try_pod(pod("p", cpu="4")).node == "a"
    rehearsal.place(pod("p", cpu="4"), "a")
    assert rehearsal.try_pod(pod("q", cpu="1")).node == ""
    rehearsal.take_back(pod("p", cpu="4"), "a")
    assert rehearsal.try_pod(pod("q", cpu="1")).node == "a"
    rehearsal.restore(victim)
    assert rehearsal.try_pod(pod("p", cpu="4")).node == ""
    assert cluster.nodes.requested[0, 0] == 3000  # nothing was removed in fact


def test_host_ports_and_spread_constraints_do_not_count_removed_pods() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    ports = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]

    def web(name: str, node_name: str = "", **spec: Any) -> Pod:
        made = pod(name, node_name=node_name, **spec)
        made.metadata.labels = {"app": "web"}
        return made

    nodes = [node(name, labels={"zone": name}) for name in "ab"]
    placed = [web(f"w{i}", "a") for i in range(2)] + [web(f"v{i}", "b") for i in range(2)]
    spread = web("p", topologySpreadConstraints=[constraint])
    cluster = world(nodes, placed)
    rehearsal = Rehearsal(whole(cluster), cluster)
    for victim in placed[2:]:
        rehearsal.remove(victim)
    trial = rehearsal.try_pod(spread)
    assert trial.outcome is not None
    assert list(trial.outcome.kept.names) == ["b"]

    listening = [web("l", "a", containers=ports), web("m", "b", containers=ports)]
    cluster = world(nodes, listening)
    rehearsal = Rehearsal(whole(cluster), cluster)
    assert rehearsal.try_pod(web("p", containers=ports)).node == ""
    rehearsal.remove(listening[1])
    assert rehearsal.try_pod(web("p", containers=ports)).node == "b"


def test_removed_pods_that_are_gone_meanwhile_change_nothing() -> None:
    victim = pod("victim", cpu="3", node_name="a")
    cluster = world([node("a", cpu="4"), node("b", cpu="1")], [victim])
    rehearsal = Rehearsal(whole(cluster), cluster)
    rehearsal.remove(victim)
    cluster.store(Pod).discard(victim.metadata.key)
    assert rehearsal.try_pod(pod("p", cpu="4")).node == "a"
    cluster.store(Pod).apply(pod("other", cpu="1", node_name="a"))
    assert rehearsal.try_pod(pod("p", cpu="4")).node == ""
