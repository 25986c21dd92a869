import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from koordpy import data
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import may_help_pods
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.embedded.apiserver import ApiServer
from koordpy.scheduling.extender import waking
from koordpy.scheduling.extender.waking import Waking
from koordpy.scheduling.interface import (
    Changed,
    ChangeHelps,
    EnqueueExtensions,
    Filter,
    Plugin,
    any_change,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.pod_queues import WOKEN, ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import becomes_true

from ..reservations.stage import reservation
from ..worlds import framework, node, pod_document, world


class Withholds(Plugin, Filter, EnqueueExtensions):
    """Shows nodes with fewer pods."""

    name = "Withholds"
    reruns = ("NodeResourcesFit",)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        return {Reservation: may_help_pods}


class Quota(Plugin, Filter, EnqueueExtensions):
    """Passes pods that are named by the label of a changed node."""

    name = "Quota"
    known_reasons = ("no quota for ",)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        return {NodeMetric: any_change}

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        return [
            pod.metadata.name.startswith("roomy") or pod.metadata.name in changed[NodeMetric] for pod in pods
        ]


def placed(phase: str = "Available", **labels: str) -> Reservation:
    document = reservation("r", metadata={"labels": labels, "uid": "uid-r"})
    return decode(Reservation, {**document, "status": {"nodeName": "n1", "phase": phase}})


class Stage:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.cluster: Cluster = world([node("n1")])
        self.framework = framework(self.cluster, Withholds, Quota)
        self.waking = Waking([self.framework], self.framework.handle, client)

    async def add_pod(self, name: str, **spec: Any) -> Pod:
        document = pod_document(name, **spec)
        del document["metadata"]["uid"]
        document["spec"]["containers"][0]["image"] = "i"
        await self.client.create_raw(
            resource_of(Pod), "default", {"apiVersion": "v1", "kind": "Pod", **document}
        )
        return await self.see(name)

    async def see(self, name: str) -> Pod:
        found = await self.client.get(Pod, "default", name)
        self.cluster.store(Pod).apply(found)
        return found

    def refuse(self, pod: Pod, plugin: str) -> None:
        self.framework.handle.report_failure(Failure(pod, Status.unschedulable("no").by(plugin)))

    def change(self, *reservations: Reservation) -> None:
        for each in reservations:
            self.cluster.store(Reservation).apply(each)

    async def woken(self) -> list[str]:
        await asyncio.sleep(0.05)
        pods = await self.client.list_all(Pod, "default")
        return sorted(pod.metadata.name for pod in pods if WOKEN in pod.metadata.annotations)


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(waking, "GATHERED_SECONDS", 0.0)
    server = ApiServer(crds=[data.deploy("crds")], controllers=False)
    await server.load()
    made = Stage(Client(ServerChannel(server)))
    running = asyncio.create_task(made.waking.run())
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    "changes",
    [
        (placed(), placed("Failed")),
        (placed("Pending"), placed()),
        (placed(), placed(team="a")),
    ],
)
async def test_a_refused_pod_is_woken_when_a_reservation_changes(
    stage: Stage, changes: tuple[Reservation, ...]
) -> None:
    stage.refuse(await stage.add_pod("p"), "NodeResourcesFit")
    stage.change(*changes)
    assert await stage.woken() == ["p"]


async def test_a_refused_pod_is_woken_when_a_reservation_goes(stage: Stage) -> None:
    stage.refuse(await stage.add_pod("p"), "Withholds")
    stage.change(placed())
    stage.cluster.store(Reservation).discard("r")
    assert await stage.woken() == ["p"]


async def test_a_pod_rejected_by_others_or_already_bound_is_not_woken(stage: Stage) -> None:
    stage.refuse(await stage.add_pod("other"), "LoadAwareScheduling")
    bound = await stage.add_pod("bound")
    stage.refuse(bound, "Withholds")
    await stage.client.bind(bound, "n1")
    await stage.see("bound")
    stage.change(placed(), placed("Failed"))
    assert await stage.woken() == []


async def test_a_plugin_chooses_which_of_its_pods_a_change_may_help(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.refuse(await stage.add_pod(name), "Quota")
    stage.refuse(await stage.add_pod("other"), "Withholds")
    stage.cluster.store(NodeMetric).apply(NodeMetric(metadata=ObjectMeta(name="b", uid="uid-b")))
    assert await stage.woken() == ["b"]


async def test_changes_before_a_rejection_do_not_wake_the_pod(stage: Stage) -> None:
    stage.cluster.store(NodeMetric).apply(NodeMetric(metadata=ObjectMeta(name="a", uid="uid-a")))
    stage.refuse(await stage.add_pod("a"), "Quota")
    assert await stage.woken() == []


async def test_a_pod_that_a_plugin_activates_is_woken_unless_it_is_gated(stage: Stage) -> None:
    plain = await stage.add_pod("plain")
    gated = await stage.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    stage.framework.handle.queue.activate([plain, gated])
    assert await stage.woken() == ["plain"]


async def test_an_event_of_a_plugin_counts_as_one_of_the_cluster(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.refuse(await stage.add_pod(name), "Quota")
    stage.refuse(await stage.add_pod("other"), "Withholds")
    queue = stage.framework.handle.queue
    queue.move_all(ClusterEvent(Reservation, placed(), placed()))  # frees nothing according to Withholds
    queue.move_all(ClusterEvent(Pod, new=await stage.see("other")))  # a kind that no plugin registered
    assert await stage.woken() == []
    metric = NodeMetric(metadata=ObjectMeta(name="b", uid="uid-b"))
    queue.move_all(ClusterEvent(NodeMetric, metric, metric))
    assert await stage.woken() == ["b"]
    queue.move_all(ClusterEvent(Reservation, placed()))
    assert await stage.woken() == ["b", "other"]


async def test_what_a_pod_gives_back_wakes_pods_of_plugins_that_do_not_follow_pods(stage: Stage) -> None:
    for name, plugin in (("fit", "NodeResourcesFit"), ("other", "Withholds"), ("elsewhere", "Elsewhere")):
        stage.refuse(await stage.add_pod(name), plugin)
    holder = await stage.add_pod("holder")
    stage.cluster.store(Pod).discard(holder.metadata.key)  # kube-scheduler sees that too
    assert await stage.woken() == []
    stage.framework.handle.gave_back(holder)
    assert await stage.woken() == ["other"]


async def test_a_change_that_frees_nothing_wakes_no_pod(stage: Stage) -> None:
    stage.refuse(await stage.add_pod("p"), "Withholds")
    stage.change(placed(), placed())
    assert await stage.woken() == []


async def test_the_most_important_pods_are_woken_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "AT_A_TIME", 1)
    for name, priority in (("low", 1), ("high", 2)):
        made = await stage.add_pod(name)
        important = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, priority=priority))
        stage.cluster.store(Pod).apply(important)
        stage.refuse(important, "Withholds")
    stage.change(placed(), placed("Failed"))
    assert await stage.woken() == ["high"]
    stage.change(placed())
    assert await stage.woken() == ["high", "low"]


async def test_pods_that_were_refused_before_this_process_led_are_woken_too(stage: Stage) -> None:
    for name, reason in (("a", "no quota for a"), ("roomy", "no quota for roomy"), ("other", "no ports")):
        await stage.add_pod(name)
        message = f"0/1 nodes are available: 1 {reason}. preemption: nothing helps."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await stage.client.patch(
            Pod, "default", name, {"status": {"conditions": [condition]}}, subresource="status"
        )
        await stage.see(name)
    leader = Waking([stage.framework], stage.framework.handle, stage.client)
    running = asyncio.create_task(leader.run())
    try:

        async def is_woken(*names: str) -> bool:
            return await stage.woken() == list(names)

        await becomes_true(lambda: is_woken("roomy"))
        for name in ("other", "a"):
            metric = NodeMetric(metadata=ObjectMeta(name=name, uid=f"uid-{name}"))
            stage.cluster.store(NodeMetric).apply(metric)
        await becomes_true(lambda: is_woken("a", "roomy"))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_all_pods_that_may_pass_after_a_change_are_woken_in_turns(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "AT_A_TIME", 2)
    names = [f"roomy-{number}" for number in range(5)]
    for name in (*names, "a", "b"):
        stage.refuse(await stage.add_pod(name), "Quota")
    stage.cluster.store(NodeMetric).apply(NodeMetric(metadata=ObjectMeta(name="b", uid="uid-b")))

    async def are_woken() -> bool:
        return await stage.woken() == ["b", *names]

    await becomes_true(are_woken)
