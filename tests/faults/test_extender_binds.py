"""The extender if the API server, the watch or kube-scheduler misbehave around a bind.

After every sequence, what is in memory must be what a fresh view of the API objects gives.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.errors import NotFound
from koordpy.embedded.apiserver import Fault
from koordpy.scheduling.interface import Permit, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import registry
from tests.eventually import PATIENCE
from tests.integration.service.stage import Document, Stage, binding, pod_document, serving, until
from tests.servers.caller import Caller, head

Faults = Callable[[str, str], Fault | None]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, parts=["extender"]) as made:
        for name in ("n0", "n1"):
            await made.add_node(name)
        yield made


def once(fault: Fault, of: str = "/binding", times: int = 1) -> Faults:
    """Return faults for the first requests to a kind of path."""
    left = times

    def ask(method: str, path: str) -> Fault | None:
        nonlocal left
        if left and path.endswith(of):
            left -= 1
            return fault
        return None

    return ask


async def node_of(stage: Stage, pod: Document) -> str:
    try:
        return (await stage.client.get(Pod, "default", pod["metadata"]["name"])).spec.node_name
    except NotFound:
        return "gone"


async def settled(stage: Stage) -> None:
    """Check invariants that hold whenever nothing is in progress."""
    await stage.assert_memory_equals_a_rebuild()
    await until(lambda: not _leftovers(stage))
    stage.assert_nothing_is_left_over()


def _leftovers(stage: Stage) -> bool:
    try:
        stage.assert_nothing_is_left_over()
    except AssertionError:
        return True
    return False


# --- the write ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "bound"),
    [
        (Fault(status=409), False),
        (Fault(status=409, after=True), True),
        (Fault(status=429), True),
        (Fault(status=403), False),
        (Fault(status=500), True),
        (Fault(status=500, after=True), True),
        (Fault(status=503, retry_after=1), True),
        (Fault(status=504, after=True), True),
        (Fault(cut=True), True),
        (Fault(cut=True, after=True), True),
        (Fault(delay=0.3), True),
    ],
    ids=lambda value: str(value) if isinstance(value, Fault) else None,
)
async def test_a_bind_that_fails_is_resolved_and_can_be_repeated(
    stage: Stage, fault: Fault, bound: bool
) -> None:
    pod = await stage.add_pod("p")
    await stage.filter(pod, "n0", "n1")
    stage.server.faults = once(fault)
    error = await stage.bind(pod, "n0")
    there = await node_of(stage, pod)
    assert (error == "") == (there == "n0"), error  # the answer is right
    if bound:
        assert there == "n0"
    else:
        assert str(fault.status) in error
        await settled(stage)
        assert (await stage.filter(pod, "n0", "n1"))["NodeNames"] == ["n0", "n1"]
        assert await stage.bind(pod, "n1") == ""
        assert await node_of(stage, pod) == "n1"
    await settled(stage)


@pytest.mark.parametrize("after", [False, True])
async def test_an_api_server_that_fails_for_long_leaves_nothing_behind(stage: Stage, after: bool) -> None:
    """Every request of the bind is cut, also the read of its outcome."""
    # Only pauses that grow from retry to retry are long enough.
    stage.process.client.send.__self__._sleep = lambda _: asyncio.sleep(0)  # type: ignore[attr-defined]
    pod = await stage.add_pod("p")
    name = pod["metadata"]["name"]

    def cut(method: str, path: str) -> Fault | None:
        return Fault(cut=True, after=after) if path.split("/pods/")[-1].startswith(name) else None

    stage.server.faults = cut
    error = await stage.bind(pod, "n0")
    assert error
    stage.server.faults = None
    there = await node_of(stage, pod)
    assert there == ("n0" if after else "")
    await settled(stage)
    assert await stage.bind(pod, "n0") == ""  # kube-scheduler tries again
    await settled(stage)


# --- the pod ----------------------------------------------------------------------------------------


async def test_a_pod_that_was_deleted_after_filter_is_not_bound(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.filter(pod, "n0")
    await stage.delete_pod("p")
    error = await stage.bind(pod, "n0")
    assert "not found" in error
    await settled(stage)


async def test_a_pod_that_is_being_deleted_is_not_bound(stage: Stage) -> None:
    pod = await stage.add_pod("p", finalizers=["example.com/hold"])
    await stage.filter(pod, "n0")
    await stage.delete_pod("p")
    assert await stage.bind(pod, "n0")
    assert await node_of(stage, pod) == ""
    await settled(stage)


async def test_a_pod_that_was_replaced_by_one_of_the_same_name_is_not_bound(stage: Stage) -> None:
    old = await stage.add_pod("p")
    await stage.filter(old, "n0")
    await stage.delete_pod("p")
    new = await stage.add_pod("p", cpu="1")
    error = await stage.bind(old, "n0")
    assert f"has UID {new['metadata']['uid']}, expected {old['metadata']['uid']}" in error
    assert await node_of(stage, new) == ""
    assert await stage.bind(new, "n1") == ""
    await settled(stage)


async def test_a_pod_deleted_while_its_binding_is_written_is_forgotten(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    under_way, go_on = asyncio.Event(), asyncio.Event()

    def slowly(method: str, path: str) -> Fault | None:
        if path.endswith("/binding"):
            under_way.set()
            return Fault(held=go_on)
        return None

    stage.server.faults = slowly
    bind = asyncio.create_task(stage.bind(pod, "n0"))
    await under_way.wait()
    await stage.delete_pod("p")
    go_on.set()
    assert await bind
    await settled(stage)


async def test_a_pod_bound_by_another_scheduler_is_reported_at_bind(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    known = stage.process.cluster.store(Pod).get("default", "p")
    assert known is not None
    await stage.client.bind(known, "n1")
    error = await stage.bind(pod, "n0")
    assert "n1" in error
    assert await stage.bind(pod, "n1") == ""
    await settled(stage)


# --- nodes ------------------------------------------------------------------------------------------


async def test_unknown_nodes_are_refused_by_name(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    answer = await stage.filter(pod, "n0", "n9", "")
    assert answer["NodeNames"] == ["n0"]
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n9", ""}
    assert (await stage.prioritize(pod, "n0", "n9")).keys() == {"n0", "n9"}
    assert await stage.bind(pod, "n9") == 'node "n9" is not known to koordpy'
    await settled(stage)


async def test_a_node_deleted_between_filter_and_bind_is_refused(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.filter(pod, "n0", "n1")
    await stage.client.delete(Node, "", "n0")
    await until(lambda: stage.process.cluster.store(Node).get("", "n0") is None)
    assert await stage.bind(pod, "n0") == 'node "n0" is not known to koordpy'
    assert await stage.bind(pod, "n1") == ""
    await settled(stage)


# --- kube-scheduler ----------------------------------------------------------------------------------


async def test_a_bind_that_is_sent_twice_is_one_bind(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    written: list[str] = []

    def slowly(method: str, path: str) -> Fault | None:
        if path.endswith("/binding"):
            written.append(path)
            return Fault(delay=0.1)
        return None

    stage.server.faults = slowly
    assert await asyncio.gather(*(stage.bind(pod, "n0") for _ in range(5))) == [""] * 5
    assert len(written) == 1
    assert await stage.bind(pod, "n0") == ""
    assert len(written) == 1
    await settled(stage)


async def test_binds_of_one_pod_to_two_nodes_end_on_one(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    stage.server.faults = once(Fault(delay=0.1))
    errors = await asyncio.gather(stage.bind(pod, "n0"), stage.bind(pod, "n1"))
    assert sorted(error == "" for error in errors) == [False, True]
    assert await node_of(stage, pod) == ("n0" if errors[0] == "" else "n1")
    await settled(stage)


async def test_filters_without_a_bind_take_nothing(stage: Stage) -> None:
    pods = [await stage.add_pod(f"p{i}", cpu="3") for i in range(4)]
    for pod in pods + pods:
        assert (await stage.filter(pod, "n0", "n1"))["NodeNames"] == ["n0", "n1"]
    await settled(stage)
    assert [await stage.bind(pod, "n0") for pod in pods[:2]] == ["", "NodeResourcesFit: Insufficient cpu"]
    await settled(stage)


async def test_a_caller_that_disconnects_while_the_binding_is_written_changes_nothing(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    under_way = asyncio.Event()

    def slowly(method: str, path: str) -> Fault | None:
        if path.endswith("/binding"):
            under_way.set()
            return Fault(delay=0.2)
        return None

    stage.server.faults = slowly
    body = json.dumps(binding(pod, "n0")).encode()
    async with Caller(stage.url("extender")) as caller:
        await caller.send(head("/extender/bind", len(body)) + body)
        await under_way.wait()
    await until(lambda: _bound(stage, pod) == "n0")
    await settled(stage)


def _bound(stage: Stage, pod: Document) -> str:
    known = stage.process.cluster.store(Pod).get("default", pod["metadata"]["name"])
    return "gone" if known is None else known.spec.node_name


# --- Permit -----------------------------------------------------------------------------------------


class Holds(Plugin, Permit):
    """Makes pods with an annotation wait."""

    name = "Holds"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(600.0) if "hold" in pod.metadata.annotations else SUCCESS


@pytest.fixture
async def holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    known = registry.installed().including(Holds)
    monkeypatch.setattr(registry, "installed", lambda: known)
    file = tmp_path / "scheduler.yaml"
    plugins = {
        "filter": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "LoadAwareScheduling"}]},
        "reserve": {"enabled": [{"name": "LoadAwareScheduling"}]},
        "permit": {"enabled": [{"name": "Holds"}]},
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    file.write_text(yaml.safe_dump(document))
    changes = {"schedulerConfig": str(file)}
    async with serving(tmp_path, parts=["extender"], extender=changes) as made:
        await made.add_node("n0")
        yield made


def waiting(stage: Stage) -> int:
    return len(stage.extender.handle.waiting_pods)


async def test_a_caller_that_disconnects_while_a_pod_waits_ends_the_attempt(holding: Stage) -> None:
    pod = await holding.add_pod("p", cpu="3", annotations={"hold": ""})
    other = await holding.add_pod("q", cpu="3")
    body = json.dumps(binding(pod, "n0")).encode()
    async with Caller(holding.url("extender")) as caller:
        await caller.send(head("/extender/bind", len(body)) + body)
        await until(lambda: waiting(holding) == 1)
        assert (
            await holding.bind(other, "n0") == "NodeResourcesFit: Insufficient cpu"
        )  # the resources are taken
    await until(lambda: waiting(holding) == 0)
    assert await holding.bind(other, "n0") == ""
    assert await node_of(holding, pod) == ""
    await settled(holding)


async def test_a_pod_deleted_while_it_waits_ends_its_bind(holding: Stage) -> None:
    pod = await holding.add_pod("p", annotations={"hold": ""})
    bind = asyncio.create_task(holding.bind(pod, "n0"))
    await until(lambda: waiting(holding) == 1)
    await holding.delete_pod("p")
    assert await bind == "pod default/p was deleted while it waited"
    await settled(holding)


async def test_a_new_attempt_of_a_waiting_pod_ends_the_old_one(holding: Stage) -> None:
    pod = await holding.add_pod("p", annotations={"hold": ""})
    bind = asyncio.create_task(holding.bind(pod, "n0"))
    await until(lambda: waiting(holding) == 1)
    assert (await holding.filter(pod, "n0"))["NodeNames"] == ["n0"]
    assert await bind == "a new scheduling attempt of the pod has begun"
    again = asyncio.create_task(holding.bind(pod, "n0"))
    await until(lambda: waiting(holding) == 1)
    for held in holding.extender.handle.waiting_pods:
        held.allow("Holds")
    assert await again == ""
    await settled(holding)


# --- everything at once ------------------------------------------------------------------------------


class Storm:
    """Random pods, binds, deletions, lost watches and failures; in the end all faults are removed."""

    FAULTS: ClassVar[list[Fault | None]] = [
        *[None] * 6,
        Fault(status=409),
        Fault(status=500, after=True),
        Fault(cut=True),
        Fault(cut=True, after=True),
        Fault(delay=0.02),
    ]

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage, self.rng = stage, random.Random(seed)
        self.pods: list[Document] = []
        self.errors = 0

    async def rage(self, steps: int) -> None:
        for number in range(steps):
            deed: Any = self.rng.choice(
                [self._new, self._new, self._bind, self._bind, self._filter, self._delete, self._cut_watches]
            )
            await deed(number)
        await self._many()

    async def _new(self, number: int) -> None:
        document = pod_document(f"p{number}", self.rng.choice(["100m", "1", "3"]))
        self.stage.server.faults = None
        created = await self.stage.client.create_raw(resource_of(Pod), "default", document)
        self.pods.append(created)

    def _any(self) -> Document | None:
        return self.rng.choice(self.pods) if self.pods else None

    async def _filter(self, _: int) -> None:
        pod = self._any()
        if pod is not None:
            await self.stage.filter(pod, "n0", "n1", "n7")

    async def _bind(self, _: int) -> None:
        pod = self._any()
        if pod is not None:
            fault = self.rng.choice(self.FAULTS)
            self.stage.server.faults = once(fault) if fault is not None else None
            error = await self.stage.bind(pod, self.rng.choice(["n0", "n0", "n1", "n1", "n7"]))
            self.errors += error != ""

    async def _delete(self, _: int) -> None:
        pod = self._any()
        if pod is not None:
            self.stage.server.faults = None
            self.pods.remove(pod)
            await self.stage.delete_pod(pod["metadata"]["name"])

    async def _cut_watches(self, _: int) -> None:
        self.stage.server.cut_watches()
        if self.rng.random() < 0.3:
            self.stage.server.compact()

    async def _many(self) -> None:
        """Bind what is left, all at the same time."""
        self.stage.server.faults = once(Fault(cut=True, after=True), times=2)
        binds = [self.stage.bind(pod, self.rng.choice(["n0", "n1"])) for pod in self.pods]
        await asyncio.gather(*binds)
        self.stage.server.faults = None


@pytest.mark.parametrize("seed", range(6))
async def test_after_any_faults_memory_equals_a_rebuild(stage: Stage, seed: int) -> None:
    storm = Storm(stage, seed)
    await storm.rage(60)
    assert storm.errors  # something did go wrong

    async def filter_on() -> None:
        """A pod bound and deleted without a watch is noticed by the next scheduling attempt.

        This one fits both nodes always: where a pod fits one node, it is reserved there.
        """
        while True:
            await stage.filter(pod_document("probe", "0", uid="uid-probe"), "n0", "n1")
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as tasks:
        filtering = tasks.create_task(filter_on())
        await settled(stage)
        filtering.cancel()


async def test_a_pod_bound_and_deleted_without_watch_events_frees_its_resources(stage: Stage) -> None:
    blind = True
    stage.server.faults = lambda method, path: (
        Fault(status=503) if blind and method == "GET" and path == "/api/v1/pods" else None
    )
    stage.server.cut_watches()
    document = pod_document("short-lived", cpu="4")
    pod = await stage.client.create_raw(resource_of(Pod), "default", document)
    assert await stage.bind(pod, "n0") == ""
    await stage.delete_pod("short-lived")
    again = await stage.client.create_raw(resource_of(Pod), "default", document)  # of the same name
    assert (await stage.filter(again, "n0"))["NodeNames"] == []
    stage.server.compact()  # so that the watch does not show it either
    blind = False
    async with asyncio.timeout(PATIENCE):
        while (await stage.filter(again, "n0"))["NodeNames"] != ["n0"]:
            await asyncio.sleep(0.05)
    assert await stage.bind(again, "n0") == ""
    await settled(stage)
