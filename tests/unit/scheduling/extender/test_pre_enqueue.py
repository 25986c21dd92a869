"""PreEnqueue plugins beside kube-scheduler: gates that are set, removed, and reported on."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import ClassVar

import pytest

from koordpy.api.core import ConfigMap, Node, Pod, WorkloadReference
from koordpy.api.gang.membership import gang_name
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster import kubernetes_gangs
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.kubernetes_gangs import KubernetesGangs
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.extender import pre_enqueue
from koordpy.scheduling.extender.pre_enqueue import PreEnqueueGates, gates_for
from koordpy.scheduling.interface import Changed, Plugin, PreEnqueue
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE

from ..worlds import extender, filter_body, framework, node, pod_document, world


class Team(Plugin, PreEnqueue):
    """Allows a team's pods once there are two of them."""

    name = "Team"

    def may_refuse(self, pod: Pod) -> bool:
        return "team" in pod.metadata.labels

    def pre_enqueue(self, pod: Pod) -> Status:
        team = pod.metadata.labels.get("team")
        known = sum(each.metadata.labels.get("team") == team for each in self.handle.cluster.store(Pod))
        return SUCCESS if team is None or known > 1 else Status.unschedulable(f"{known} of 2 pods of {team}")


class Opening(Plugin, PreEnqueue):
    """Allows pods once there is a ConfigMap named open."""

    name = "Opening"
    pre_enqueue_events: ClassVar[tuple[type[KubeObject], ...]] = (ConfigMap,)
    by_hand: ClassVar[bool] = False

    def pre_enqueue(self, pod: Pod) -> Status:
        is_open = self.handle.cluster.store(ConfigMap).get("default", "open") is not None
        return SUCCESS if is_open or Opening.by_hand else Status.unschedulable("closed")


class Teams(Team):
    """A team's pods are checked again only when the team changes."""

    name = "Teams"
    checked: ClassVar[list[str]] = []

    def pre_enqueue(self, pod: Pod) -> Status:
        Teams.checked.append(pod.metadata.name)
        return super().pre_enqueue(pod)

    def pre_enqueue_concerned(self, changed: Changed) -> Iterable[str]:
        pods = self.handle.cluster.store(Pod)
        known = [each for key in changed[Pod] if (each := pods.by_key(key)) is not None]
        teams = {each.metadata.labels.get("team") for each in known}
        return [each.metadata.uid for each in pods if each.metadata.labels.get("team") in teams]


class Broken(Plugin, PreEnqueue):
    """Fails."""

    name = "Broken"

    def pre_enqueue(self, pod: Pod) -> Status:
        raise RuntimeError("no idea")


class Stage:
    """An API server with pods, and a cluster view that the test feeds."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cluster: Cluster = world([node("n1")])
        made = framework(self.cluster, Team, Opening)
        self.profiles = Profiles(frameworks={"default-scheduler": made})
        self.handle = made.handle
        self.gates = PreEnqueueGates(self.profiles, made.handle, client, {})

    async def add_pod(self, name: str, *gates: str, **labels: str) -> Pod:
        document = pod_document(name, schedulingGates=[{"name": gate} for gate in gates])
        del document["metadata"]["uid"]
        document["metadata"]["labels"] = labels
        document["spec"]["containers"][0]["image"] = "i"
        await self.client.create_raw(
            resource_of(Pod), "default", {"apiVersion": "v1", "kind": "Pod", **document}
        )
        return await self.see(name)

    async def see(self, name: str) -> Pod:
        found = await self.client.get(Pod, "default", name)
        self.cluster.store(Pod).apply(found)
        return found

    async def gates_of(self, name: str) -> list[str]:
        return [gate.name for gate in (await self.see(name)).spec.scheduling_gates]

    async def condition(self, name: str) -> tuple[str, str] | None:
        conditions = (await self.see(name)).status.conditions
        return next(((c.reason, c.message) for c in conditions if c.type == "PodScheduled"), None)


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(pre_enqueue, "GATHERED_SECONDS", 0.0)
    server = ApiServer(controllers=False)
    await server.load()
    made = Stage(Client(ServerChannel(server)))
    running = asyncio.create_task(made.gates.run())
    yield made
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_gate_is_removed_when_its_plugin_no_longer_rejects_the_pod(stage: Stage) -> None:
    await stage.add_pod("a", gate_of("Team"), team="x")
    await until_condition(stage, "a", ("NotReadyForScheduling", "Team: 1 of 2 pods of x"))
    assert await stage.gates_of("a") == [gate_of("Team")]
    await stage.add_pod("b", gate_of("Team"), team="x")
    await until_gates(stage, "a", [])
    await until_gates(stage, "b", [])
    await until_condition(stage, "a", None)


async def test_only_the_pods_that_a_change_concerns_are_checked_again() -> None:
    server = ApiServer(controllers=False)
    await server.load()
    stage = Stage(Client(ServerChannel(server)))
    made = framework(stage.cluster, Teams)
    gates = PreEnqueueGates(Profiles(frameworks={"default-scheduler": made}), made.handle, stage.client, {})
    for name, team in (("p1", "a"), ("q1", "b")):
        await stage.add_pod(name, gate_of("Teams"), team=team)
    await gates._check_due()
    Teams.checked.clear()
    await stage.add_pod("p2", team="a")
    await gates._check_due()
    assert Teams.checked == ["p1"]


async def test_each_plugin_removes_its_own_gate_alone(stage: Stage) -> None:
    await stage.add_pod("a", gate_of("Team"), "example.com/own", gate_of("Opening"))
    await until_gates(stage, "a", ["example.com/own", gate_of("Opening")])
    await until_condition(stage, "a", ("NotReadyForScheduling", "Opening: closed"))
    stage.cluster.store(ConfigMap).apply(
        ConfigMap(metadata=ObjectMeta(name="open", namespace="default", uid="u"))
    )
    await until_gates(stage, "a", ["example.com/own"])
    await until_condition(
        stage, "a", ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    )


async def test_the_gate_of_a_plugin_that_does_not_run_is_removed(stage: Stage) -> None:
    await stage.add_pod("a", gate_of("Gone"))
    await until_gates(stage, "a", [])


async def test_a_pod_that_was_replaced_keeps_its_gates(stage: Stage) -> None:
    """The patch names the UID: a decision for one pod is not applied to another one of its name."""
    old = await stage.add_pod("a", gate_of("Opening"))
    await stage.client.delete(Pod, "default", "a", grace_period_seconds=0)
    document = pod_document("a", schedulingGates=[{"name": gate_of("Opening")}])
    del document["metadata"]["uid"]
    document["spec"]["containers"][0]["image"] = "i"
    await stage.client.create_raw(
        resource_of(Pod), "default", {"apiVersion": "v1", "kind": "Pod", **document}
    )
    stage.cluster.store(Pod).apply(old)  # the watch is behind
    stage.cluster.store(ConfigMap).apply(
        ConfigMap(metadata=ObjectMeta(name="open", namespace="default", uid="u"))
    )
    await asyncio.sleep(0.1)
    live = await stage.client.get(Pod, "default", "a")
    assert [gate.name for gate in live.spec.scheduling_gates] == [gate_of("Opening")]


@pytest.mark.parametrize("kind", [None, ConfigMap])
async def test_a_plugin_can_have_gated_pods_checked_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: type[KubeObject] | None
) -> None:
    pod = await stage.add_pod("a", gate_of("Opening"))
    await until_condition(stage, "a", ("NotReadyForScheduling", "Opening: closed"))
    monkeypatch.setattr(Opening, "by_hand", True)
    if kind is None:
        stage.handle.queue.activate([pod])
    else:
        changed = kind(metadata=ObjectMeta(name="any"))
        stage.handle.queue.move_all(ClusterEvent(Node, old=Node(metadata=ObjectMeta(name="any"))))
        assert await stage.gates_of("a") == [gate_of("Opening")]  # not a kind that the plugin follows
        stage.handle.queue.move_all(ClusterEvent(kind, new=changed))
    await until_gates(stage, "a", [])


async def until_gates(stage: Stage, name: str, gates: list[str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await stage.gates_of(name) != gates:
            await asyncio.sleep(0.02)


async def until_condition(stage: Stage, name: str, wanted: tuple[str, str] | None) -> None:
    async with asyncio.timeout(PATIENCE):
        while await stage.condition(name) != wanted:
            await asyncio.sleep(0.02)


# --- which gates a new pod gets -------------------------------------------------------------------


def new_pod(**labels: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u", labels=labels))


def test_a_new_pod_gets_the_gates_of_plugins_that_may_reject_it() -> None:
    made = framework(world([]), Team, Opening)
    gates = gates_for(Profiles(frameworks={"default-scheduler": made}))
    assert gates is not None
    assert gates("", lambda: new_pod(team="x")) == [gate_of("Team"), gate_of("Opening")]
    assert gates("default-scheduler", new_pod) == [gate_of("Opening")]
    assert gates("other", lambda: pytest.fail("a pod of another scheduler is not even read")) == []


def test_without_rejecting_plugins_there_are_no_gates() -> None:
    assert gates_for(Profiles(frameworks={"default-scheduler": framework(world([]))})) is None


def test_the_gates_of_a_pod_follow_from_the_gang_that_its_spec_names() -> None:
    class Gangs(Opening):
        name = "Gangs"

        def may_refuse(self, pod: Pod) -> bool:
            return gang_name(pod) == "job:pg"

    profiles = Profiles(frameworks={"default-scheduler": framework(world([]), Gangs)})
    member = new_pod()
    member.spec.workload_ref = WorkloadReference(name="job", pod_group="pg")
    on = FeatureGates(kubernetes_gangs.SPECS, {kubernetes_gangs.WORKLOAD_REF: True})
    for gangs, expected in ((None, []), (KubernetesGangs(on), [gate_of("Gangs")])):
        gates = gates_for(profiles, gangs)
        assert gates is not None
        assert gates("", lambda: member) == expected


# --- filter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "failure"), [(Opening, "closed"), (Broken, "no idea")], ids=["refuses", "raises"]
)
def test_a_pod_whose_gate_is_gone_is_checked_again_by_filter(plugin: type[Plugin], failure: str) -> None:
    cluster = world([node("n1"), node("n2")])
    asked = extender(cluster, plugin)
    answer, _ = asked.filter(filter_body(pod_document("p"), ["n1", "n2"]))
    result = json.loads(answer)
    assert not result.get("NodeNames")
    if plugin is Broken:
        assert failure in result["Error"]
    else:
        assert set(result["FailedAndUnresolvableNodes"]) == {"n1", "n2"}
        assert failure in result["FailedAndUnresolvableNodes"]["n1"]


def test_a_pod_that_comes_ungated_is_warned_of_once_per_plugin(caplog: pytest.LogCaptureFixture) -> None:
    made = extender(world([node("n1")]), Team, Opening)
    team = pod_document("a")
    team["metadata"]["labels"] = {"team": "x"}
    for document in (team, team, pod_document("b")):
        assert json.loads(made.filter(filter_body(document, ["n1"]))[0])["NodeNames"] == []
    assert [record.getMessage().split(" rejects ")[0] for record in caplog.records] == [
        "PreEnqueue plugin Team",
        "PreEnqueue plugin Opening",
    ]
    assert f"never had the scheduling gate {gate_of('Team')}" in caplog.text


def test_a_pod_that_had_its_gate_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    made = extender(world([node("n1")]), Opening)
    pods = made.handle.cluster.store(Pod)
    gated = decode(Pod, pod_document("a", schedulingGates=[{"name": gate_of("Opening")}]))
    pods.apply(gated)
    ungated = decode(Pod, pod_document("a"))
    pods.apply(ungated)
    assert json.loads(made.filter(filter_body(pod_document("a"), ["n1"]))[0])["NodeNames"] == []
    assert caplog.text == ""
