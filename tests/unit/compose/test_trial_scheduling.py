"""Trial scheduling of pods that are to be evicted."""

from koordpy.api.core import Node, Pod
from koordpy.api.pods.successor import successor_of
from koordpy.cluster.cluster import Cluster
from koordpy.compose.trial_scheduling import TrialScheduling
from koordpy.descheduling.proof.trial import TrialSession
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.registry import Place, build
from tests.unit.scheduling.worlds import configuration, node, pod, world


def session_on(cluster: Cluster, *plugins: str) -> TrialSession:
    profiles = build(configuration(plugins, None), lambda _: Handle(cluster), place=Place.EXTENDER)
    return TrialScheduling(cluster, lambda: profiles).session()


def names(session: TrialSession, victim: Pod) -> list[str]:
    return [candidate.node.metadata.name for candidate in session.attempt(victim).best]


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    victim = pod("v", cpu="6", node_name="a")
    session = session_on(world([node("a"), node("small", cpu="1")], [victim]))
    [best] = session.attempt(victim).best
    assert (best.node.metadata.name, best.pods) == ("a", ())
    assert session.attempt(victim).feasible == 1


def test_the_reason_names_plugins_and_numbers_of_nodes() -> None:
    victim = pod("v", cpu="6", node_name="gone")
    nodes = [node("a", cpu="1"), node("b", cpu="1"), node("c", unschedulable=True)]
    attempt = session_on(world(nodes, [victim])).attempt(victim)
    assert not attempt.best
    assert "of 3 nodes" in attempt.reason
    assert "NodeResourcesFit rejects 2 (Insufficient cpu)" in attempt.reason
    assert "NodeUnschedulable rejects 1" in attempt.reason


def test_a_pod_of_another_scheduler_is_not_proved() -> None:
    victim = pod("v", node_name="a", schedulerName="volcano")
    attempt = session_on(world([node("a"), node("b")], [victim])).attempt(victim)
    assert not attempt.best
    assert attempt.reason == "no profile for schedulerName volcano; profiles: default-scheduler"


def test_earlier_victims_take_their_place_on_the_proved_node_and_leave_their_own() -> None:
    victims = [pod(f"v{i}", cpu="3", node_name="a") for i in range(3)]
    cluster = world([node("a", cpu="9", unschedulable=True), node("b", cpu="4"), node("c", cpu="4")], victims)
    session = session_on(cluster)
    assert sorted(names(session, victims[0])) == ["b", "c"]
    session.keep(victims[0], "b")
    assert names(session, victims[1]) == ["c"]
    session.keep(victims[1], "c")
    attempt = session.attempt(victims[2])
    assert not attempt.best
    assert "NodeResourcesFit rejects 2 (Insufficient cpu)" in attempt.reason
    # The successor is bound, and counts as a pod of the cluster, once.
    session.arrived(victims[0])
    cluster.store(Pod).apply(pod("v0-again", cpu="1", node_name="b"))
    assert names(session, victims[2]) == ["b"]


def test_candidates_have_the_pods_that_the_node_would_have() -> None:
    stays = pod("stays", node_name="b")
    victims = [pod(f"v{i}", node_name=name) for i, name in enumerate("aab")]
    cluster = world([node("a", unschedulable=True), node("b")], [stays, *victims])
    session = session_on(cluster)
    session.attempt(victims[0])
    session.keep(victims[0], "b")
    session.keep(victims[2], "elsewhere")
    [best] = session.attempt(victims[1]).best
    assert sorted(other.metadata.name for other in best.pods) == ["stays", "v0"]


def test_a_successor_is_a_fresh_pod_like_the_victim() -> None:
    victim = pod("v", node_name="a", status={"phase": "Running"})
    victim.metadata.annotations = {"scheduling.koordinator.sh/device-allocated": "{}", "kept": "1"}
    victim.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    successor = successor_of(victim)
    assert (successor.spec.node_name, successor.status.phase) == ("", "")
    assert successor.metadata.annotations == {"kept": "1"}
    assert successor.metadata.uid != victim.metadata.uid
    assert successor.metadata.creation_timestamp is None
    assert victim.spec.node_name == "a"


def test_equally_good_nodes_are_all_named() -> None:
    victim = pod("v", node_name="a")
    cluster = world([node("a", unschedulable=True), *(node(f"n{i}") for i in range(5))], [victim])
    assert names(session_on(cluster), victim) == [f"n{i}" for i in range(5)]
    cluster.store(Node).apply(node("n5", cpu="80", memory="320Gi"))
    assert names(session_on(cluster), victim) == ["n5"]
