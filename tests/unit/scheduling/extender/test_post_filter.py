"""PostFilter beside kube-scheduler: of pods that koordpy rejects by itself."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.scheduling.extender.post_filter import AFTER_FAILURE
from koordpy.scheduling.interface import Filter, Plugin, PostFilter, PreFilter
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE

from ..worlds import extender, filter_body, node, pod, pod_document, world


class Quota(Plugin, PreFilter, PostFilter):
    """Rejects every pod before filtering, and nominates it afterwards."""

    name = "Quota"
    beside_kube_scheduler = True

    def __init__(self, args, handle) -> None:
        super().__init__(args, handle)
        self.asked: list[tuple[str, str]] = []
        self.rejects = True
        self.result = SUCCESS
        self.then: Callable[[], None] = lambda: None

    def pre_filter(self, state, pod, nodes):
        return None, Status.unschedulable("over quota") if self.rejects else SUCCESS

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        self.asked.append((pod.metadata.name, outcome.prefilter.message))
        self.then()
        return PostFilterResult("b", override=True), self.result


class Rejects(Plugin, Filter):
    """Rejects every node."""

    name = "Rejects"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("no")


class Preempts(Plugin, PostFilter):
    """Would preempt, where koordpy is the scheduler itself."""

    name = "Preempts"

    async def post_filter(self, state, pod, outcome):
        raise AssertionError("called beside kube-scheduler")


def made(*classes: type[Plugin]) -> Any:
    return extender(world([node("a"), node("b")], [pod("p"), pod("q")]), *classes)


def quota_of(extender: Any) -> Quota:
    plugins = extender.profiles.frameworks["default-scheduler"].plugins
    return next(plugin for plugin in plugins if isinstance(plugin, Quota))


def tried(extender: Any, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(extender.filter(filter_body(pod_document(name), ["a", "b"]))[0])
    return found


async def run_until(extender: Any, done: Any) -> None:
    task = asyncio.ensure_future(extender.post_filters.run())
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            while not done():
                tried(extender)
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_pod_rejected_before_filtering_gets_its_post_filter_in_the_leader() -> None:
    e = made(Quota, Preempts)
    plugin = quota_of(e)
    assert "over quota" in tried(e)["FailedAndUnresolvableNodes"]["a"]
    await asyncio.sleep(0.01)
    assert plugin.asked == []  # not leading
    await run_until(e, lambda: plugin.asked)
    assert plugin.asked[0] == ("p", "over quota")
    assert list(e.handle.nominator.node_names) == []  # no client: nothing is nominated that nobody would see


async def test_a_pod_rejected_on_nodes_is_left_to_kube_scheduler() -> None:
    e = made(Quota, Rejects)
    plugin = quota_of(e)
    plugin.rejects = False
    task = asyncio.ensure_future(e.post_filters.run())
    await asyncio.sleep(0)
    assert tried(e)["FailedNodes"] == {"a": "no", "b": "no"}
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert plugin.asked == []


async def test_pods_that_are_gone_by_then_are_not_asked_for() -> None:
    e = made(Quota)
    plugin = quota_of(e)
    task = asyncio.ensure_future(e.post_filters.run())
    await asyncio.sleep(0)
    tried(e, "q")
    e.handle.cluster.store(Pod).discard("default/q")
    tried(e, "p")
    async with asyncio.timeout(PATIENCE):
        while not plugin.asked:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert plugin.asked == [("p", "over quota")]


def test_without_such_a_plugin_there_is_nothing_to_run() -> None:
    assert not made(Preempts).post_filters
    assert made(Quota).post_filters


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize("nominated", ["", "a"])
async def test_a_pod_that_kube_scheduler_cannot_place_gets_its_post_filter_unless_it_is_nominated(
    nominated: str,
) -> None:
    e = made(Quota)
    plugin = quota_of(e)
    task = asyncio.ensure_future(e.post_filters.run())
    await asyncio.sleep(0)
    store = e.handle.cluster.store(Pod)
    status = {"conditions": [UNSCHEDULABLE], "nominatedNodeName": nominated}
    store.apply(pod("p", status=status))
    store.apply(pod("q", status={"conditions": [UNSCHEDULABLE]}))
    async with asyncio.timeout(PATIENCE):
        while not any(name == "q" for name, _ in plugin.asked):
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [name for name, _ in plugin.asked] == (["q"] if nominated else ["p", "q"])


async def test_a_pod_whose_proposed_evictions_are_all_refused_gets_its_post_filter() -> None:
    e = made(Quota)
    plugin = quota_of(e)
    task = asyncio.ensure_future(e.post_filters.run())
    await asyncio.sleep(0)
    body = {"Pod": pod_document("p"), "NodeNameToMetaVictims": {}}
    assert json.loads(e.preempt(json.dumps(body).encode()))["NodeNameToMetaVictims"] == {}
    async with asyncio.timeout(PATIENCE):
        while not plugin.asked:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert plugin.asked == [("p", "over quota")]


async def test_a_pod_whose_post_filter_failed_gets_it_again_after_a_while_and_not_before() -> None:
    e = made(Quota)
    plugin, clock = quota_of(e), e.handle.clock
    plugin.result = Status.failed("may not evict")
    task = asyncio.ensure_future(e.post_filters.run())
    await asyncio.sleep(0)

    async def until(*asked: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while [name for name, _ in plugin.asked] != list(asked):
                await asyncio.sleep(0.01)

    try:
        tried(e, "p")
        await until("p")
        tried(e, "p")
        tried(e, "q")
        await until("p", "q")
        clock.advance(AFTER_FAILURE)
        plugin.result = SUCCESS
        e.handle.cluster.store(Pod).apply(pod("r"))
        tried(e, "r")
        await until("p", "q", "r", "p", "q")
        tried(e, "p")
        await until("p", "q", "r", "p", "q", "p")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_pod_that_is_gone_when_its_post_filter_ends_is_not_nominated(is_deleted: bool) -> None:
    e = made(Quota)
    e.handle.client = Client(ServerChannel(ApiServer()))
    plugin, pods = quota_of(e), e.handle.cluster.store(Pod)
    plugin.then = lambda: pods.discard("default/p") if is_deleted else None
    task = asyncio.ensure_future(e.post_filters.run())
    await asyncio.sleep(0)
    tried(e)
    expected = [] if is_deleted else ["b"]
    async with asyncio.timeout(PATIENCE):
        while not plugin.asked or list(e.handle.nominator.node_names) != expected:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.01)
    assert plugin.asked == [("p", "over quota")]
    assert list(e.handle.nominator.node_names) == expected
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
