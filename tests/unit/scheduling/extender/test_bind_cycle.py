import asyncio
import json
from typing import Any, ClassVar

import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import Bind, Binding, Filter, Permit, Plugin, PostBind, PreBind, Reserve
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.simulation.inprocess import ServerChannel

from ..worlds import bind_body, extender, filter_body, node, pod, pod_document, world


class Ledger(Plugin, Filter, Reserve, PreBind, PostBind):
    """Allocates one token per node, and writes it into the pod."""

    name = "Ledger"

    def __init__(self, args, handle) -> None:
        super().__init__(args, handle)
        self.held: dict[str, str] = {}
        self.bound: list[str] = []

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("no token") if len(node.pods) else SUCCESS

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        if node_name in self.held:
            return Status.unschedulable("token is taken")
        self.held[node_name] = pod.metadata.uid
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.held.get(node_name) == pod.metadata.uid:
            del self.held[node_name]

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        binding.annotations["token"] = f"of-{node_name}"
        return SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.bound.append(pod.metadata.name)


class Holds(Plugin, Permit):
    """Makes every pod wait for a minute."""

    name = "Holds"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(60)


class Refuses(Plugin, Bind):
    """Fails to bind."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        return Status.failed("the API server said no")


class Unseen(Plugin, Bind):
    """Binds, which the watch does not show yet."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        return SUCCESS


class Vanishes(Plugin, Bind):
    """Binds a pod that is deleted at once: the watch shows only that."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        self.handle.cluster.store(Pod).discard(pod.metadata.key)
        return SUCCESS


class ByName(Plugin, Reserve):
    """Knows pods by their names."""

    name = "ByName"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.reserved: dict[str, str] = {}
        handle.on_forget(lambda pod, _: self.unreserve(CycleState(), pod, ""))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.reserved[pod.metadata.key] = pod.metadata.uid
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.pop(pod.metadata.key, None)


class Writes(Plugin, Bind):
    """Binds when it is told to; the watch does not show it."""

    name = "DefaultBinder"
    gate: ClassVar[asyncio.Event]
    fails: ClassVar[str] = ""
    """The UID of a pod that cannot be bound."""

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        await self.gate.wait()
        return Status.failed("no") if pod.metadata.uid == self.fails else SUCCESS


class Blocks(Plugin, PreBind):
    """Blocks until it is released."""

    name = "Blocks"
    go: asyncio.Event

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        await self.go.wait()
        return SUCCESS


class World:
    """An extender over two nodes and some waiting pods."""

    def __init__(self, *classes: type[Plugin], pods: int = 2) -> None:
        self.documents = [pod_document(f"p{i}") for i in range(pods)]
        self.extender: Extender = extender(
            world([node("a"), node("b")], [pod(f"p{i}") for i in range(pods)]), *classes
        )
        self.store = self.extender.handle.cluster.store(Pod)
        self.nodes = self.extender.handle.nodes
        framework = self.extender.profiles.frameworks["default-scheduler"]
        self.plugins = {plugin.name: plugin for plugin in framework.plugins}

    @property
    def ledger(self) -> Ledger:
        plugin = self.plugins["Ledger"]
        assert isinstance(plugin, Ledger)
        return plugin

    def filter(self, index: int) -> dict[str, object]:
        answer: dict[str, object] = json.loads(
            self.extender.filter(filter_body(self.documents[index], ["a", "b"]))[0]
        )
        return answer

    async def bind(self, index: int, node_name: str = "a", gone=None) -> str:
        error: str = json.loads(await self.extender.bind(bind_body(self.documents[index], node_name), gone))[
            "Error"
        ]
        return error

    async def held(self, index: int) -> "asyncio.Task[str]":
        task = asyncio.ensure_future(self.bind(index))
        while self.extender.handle.waiting_pods.get(f"uid-p{index}") is None:
            assert not task.done(), task.result()
            await asyncio.sleep(0)
        return task

    def is_clean(self) -> bool:
        return not self.ledger.held and not self.nodes.requested.any() and not len(self.extender.attempts)


async def test_a_pod_is_bound_with_the_annotations_of_pre_bind() -> None:
    w = World(Ledger)
    w.filter(0)
    assert await w.bind(0) == ""
    bound = w.store.get("default", "p0")
    assert bound is not None
    assert (bound.spec.node_name, bound.metadata.annotations) == ("a", {"token": "of-a"})
    assert w.ledger.bound == ["p0"]
    assert not w.nodes.is_assumed("uid-p0")
    assert w.extender.decisions.of("default", "p0")[0].outcome == "bound"


async def test_filters_run_again_before_anything_is_allocated() -> None:
    w = World(Ledger)
    w.filter(0)
    w.filter(1)
    assert await w.bind(0) == ""
    assert await w.bind(1) == "Ledger: no token"
    assert w.nodes.placed_on("uid-p1") is None


async def test_a_bind_after_many_other_filter_calls_filters_its_node_again() -> None:
    w = World(Ledger, pods=3)
    w.extender.attempts.budget.limit = 1
    for index in range(3):
        w.filter(index)
    assert await w.bind(0) == ""
    assert await w.bind(1) == "Ledger: no token"
    assert await w.bind(2, "b") == ""


async def test_a_failed_bind_rolls_everything_back() -> None:
    w = World(Ledger, Refuses)
    w.filter(0)
    assert "the API server said no" in await w.bind(0)
    assert w.is_clean()
    assert w.extender.decisions.of("default", "p0")[0].outcome == "failed"


async def test_a_bind_after_a_restart_needs_no_filter_call() -> None:
    w = World(Ledger)
    assert await w.bind(0) == ""
    assert w.ledger.held == {"a": "uid-p0"}


async def test_a_bind_that_is_repeated_after_success_succeeds() -> None:
    w = World(Ledger)
    assert [await w.bind(0), await w.bind(0)] == ["", ""]
    assert w.ledger.bound == ["p0"]


async def test_a_pod_that_is_bound_elsewhere_is_refused() -> None:
    w = World(Ledger)
    await w.bind(0)
    assert await w.bind(0, "b") == "pod default/p0 is already bound to node a, not to b"


async def test_a_bind_that_is_repeated_while_it_runs_shares_its_end() -> None:
    w = World(Ledger, Holds)
    first = await w.held(0)
    second = asyncio.ensure_future(w.bind(0))
    elsewhere = await w.bind(0, "b")
    waiting = w.extender.handle.waiting_pods.get("uid-p0")
    assert waiting is not None
    waiting.allow("Holds")
    assert [await first, await second] == ["", ""]
    assert elsewhere == "pod default/p0 is being bound to node a, not to b"


async def test_another_uid_is_another_pod() -> None:
    w = World(Ledger)
    w.documents[0]["metadata"]["uid"] = "other"
    assert await w.bind(0) == "pod default/p0 has UID uid-p0, expected other"


async def test_an_unknown_pod_and_an_unknown_node_are_refused() -> None:
    w = World(Ledger)
    assert 'node "ghost" is not known' in await w.bind(0, "ghost")
    w.documents[0]["metadata"]["name"] = "nobody"
    assert await w.bind(0) == "pod default/nobody not found"
    assert w.is_clean()


async def test_a_pod_of_another_scheduler_is_not_bound() -> None:
    w = World(Ledger, Blocks)
    Blocks.go = asyncio.Event()
    Blocks.go.set()
    w.filter(0)
    w.store.apply(pod("p0", schedulerName="other"))
    assert "no profile for schedulerName 'other'" in await w.bind(0)


async def test_a_pod_that_is_being_deleted_is_not_bound() -> None:
    w = World(Ledger, Holds)
    task = await w.held(0)
    deleted = pod("p0")
    deleted.metadata.deletion_timestamp = "2026-03-01T00:00:00Z"
    w.store.apply(deleted)
    waiting = w.extender.handle.waiting_pods.get("uid-p0")
    assert waiting is not None
    waiting.allow("Holds")
    assert await task == "pod is being deleted"
    assert w.is_clean()


async def test_a_rejected_wait_rolls_everything_back() -> None:
    w = World(Ledger, Holds)
    task = await w.held(0)
    assert w.ledger.held == {"a": "uid-p0"}
    waiting = w.extender.handle.waiting_pods.get("uid-p0")
    assert waiting is not None
    waiting.reject("Holds", "gang is incomplete")
    assert await task == "Holds: gang is incomplete"
    assert w.is_clean()


async def test_a_wait_times_out() -> None:
    class Impatient(Holds):
        name = "Impatient"

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            return Status.wait(0.001)

    w = World(Ledger, Impatient)
    assert "rejected due to timeout after waiting 1ms at plugin Impatient" in await w.bind(0)
    assert w.is_clean()


async def test_a_wait_needs_every_plugin_that_made_the_pod_wait() -> None:
    class HoldsToo(Holds):
        name = "HoldsToo"

    w = World(Ledger, Holds, HoldsToo)
    task = await w.held(0)
    waiting = w.extender.handle.waiting_pods.get("uid-p0")
    assert waiting is not None
    waiting.allow("Holds")
    await asyncio.sleep(0)
    assert (waiting.pending_plugins, task.done()) == (["HoldsToo"], False)
    waiting.allow("HoldsToo")
    assert await task == ""


async def test_a_pod_deleted_while_it_waits_frees_its_place_at_once() -> None:
    w = World(Ledger, Holds)
    task = await w.held(0)
    w.store.discard("default/p0")
    assert not w.ledger.held
    assert not w.nodes.requested.any()
    assert "was deleted while it waited" in await task
    assert w.is_clean()


async def test_a_new_filter_call_ends_the_wait_before_it_filters_nodes() -> None:
    w = World(Ledger, Holds)
    task = await w.held(0)
    assert w.filter(0)["NodeNames"] == ["a", "b"]
    assert "a new scheduling attempt" in await task
    assert not w.ledger.held
    assert len(w.extender.attempts) == 1


async def test_a_new_filter_call_while_binding_fails_the_attempt() -> None:
    Blocks.go = asyncio.Event()
    w = World(Ledger, Blocks)
    w.filter(0)
    task = asyncio.ensure_future(w.bind(0))
    await asyncio.sleep(0)
    assert "still being bound to node a" in str(w.filter(0)["Error"])
    Blocks.go.set()
    assert await task == ""


async def test_other_pods_are_filtered_while_a_bind_is_held() -> None:
    w = World(Ledger, Holds)
    await w.held(0)
    assert w.filter(1)["NodeNames"] == ["b"]


async def test_a_caller_that_disconnects_ends_the_wait() -> None:
    w = World(Ledger, Holds)
    disconnected = asyncio.Event()

    async def gone() -> None:
        await disconnected.wait()

    task = asyncio.ensure_future(w.bind(0, "a", gone))
    while not len(w.extender.handle.waiting_pods):
        await asyncio.sleep(0)
    disconnected.set()
    assert "disconnected" in await task
    assert w.is_clean()


async def test_a_failure_is_reported_to_the_failure_handlers() -> None:
    w = World(Ledger, Refuses)
    told: list[str] = []
    framework = w.extender.profiles.frameworks["default-scheduler"]

    def handler(failure: Failure) -> bool:
        told.append(f"{failure.pod.metadata.name}: {failure.status.message}")
        return True

    framework.handle.on_failure(handler)
    await w.bind(0)
    assert told == ['p0: running Bind plugin "DefaultBinder": the API server said no']


async def test_thousands_of_binds_wait_at_once() -> None:
    class HoldsMany(Holds):
        name = "HoldsMany"

    w = World(HoldsMany, pods=2000)
    tasks = [asyncio.ensure_future(w.bind(index, "ab"[index % 2])) for index in range(2000)]
    while len(w.extender.handle.waiting_pods) < 2000:
        await asyncio.sleep(0)
    for waiting in w.extender.handle.waiting_pods:
        waiting.allow("HoldsMany")
    assert set(await asyncio.gather(*tasks)) == {""}
    assert not len(w.extender.attempts)


async def test_a_bound_pod_that_no_watch_ever_shows_is_forgotten() -> None:
    class Writes(Plugin, Bind):
        name = "DefaultBinder"

        async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
            return SUCCESS

    w = World(Ledger, Writes, pods=3)
    w.filter(0)
    w.store.discard("default/p0")
    w.filter(0)
    assert await w.bind(0) == ""
    assert w.nodes.is_assumed("uid-p0")
    w.extender.clock.advance(601)  # type: ignore[attr-defined]
    w.filter(1)
    assert await w.bind(1, "b") == ""
    assert not w.nodes.is_assumed("uid-p0")


@pytest.mark.parametrize("is_seen", [False, True])
async def test_a_bound_pod_is_forgotten_if_it_is_gone_before_the_watch_shows_it_on_its_node(
    is_seen: bool,
) -> None:
    cluster = world([node("a")], [pod("p")])
    made = extender(cluster, Unseen)
    [framework] = made.profiles.frameworks.values()
    forgotten: list[tuple[str, str]] = []
    framework.handle.on_forget(lambda pod, node_name: forgotten.append((pod.metadata.uid, node_name)))
    assert json.loads(await made.bind(bind_body(pod_document("p"), "a"))) == {"Error": ""}
    if is_seen:
        cluster.store(Pod).apply(pod("p", node_name="a"))
    cluster.store(Pod).apply(pod("p", uid="uid-of-another"))
    assert forgotten == ([] if is_seen else [("uid-p", "a")])
    assert cluster.nodes.placed_on("uid-p") is None


@pytest.mark.parametrize("when", ["its binding fails", "its binding succeeds", "it was bound unseen"])
async def test_a_pod_keeps_what_is_reserved_by_its_name_when_the_one_before_is_forgotten(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writes, "gate", asyncio.Event(), raising=False)
    monkeypatch.setattr(Writes, "fails", "uid-1" if when == "its binding fails" else "")
    is_unseen = when == "it was bound unseen"
    cluster = world([node("a")], [] if is_unseen else [pod("p", uid="uid-1")])
    made = extender(cluster, ByName, Writes)
    [framework] = made.profiles.frameworks.values()
    by_name = next(plugin for plugin in framework.plugins if isinstance(plugin, ByName))
    first, second = pod_document("p", uid="uid-1"), pod_document("p", uid="uid-2")
    made.filter(filter_body(first, ["a"]))
    binding = asyncio.ensure_future(made.bind(bind_body(first, "a")))
    while not by_name.reserved:
        await asyncio.sleep(0)
    if is_unseen:
        Writes.gate.set()
        await binding
        made.clock.advance(599)  # type: ignore[attr-defined]
    else:
        cluster.store(Pod).apply(pod("p", uid="uid-2"))
    _, attempt = made.filter(filter_body(second, ["a"]))
    assert attempt is not None
    made.work_ahead(attempt)
    bound = asyncio.ensure_future(made.bind(bind_body(second, "a")))
    await asyncio.sleep(0)
    Writes.gate.set()
    await binding
    assert json.loads(await bound) == {"Error": ""}
    made.clock.advance(2)  # type: ignore[attr-defined]
    made.binds.bound.forget_vanished()
    assert by_name.reserved == {"default/p": "uid-2"}


async def test_a_late_bind_call_for_an_earlier_pod_of_the_name_takes_nothing_from_the_later_one() -> None:
    server = ApiServer(controllers=False)
    await server.load()
    client = Client(ServerChannel(server))
    document = pod_document("p")
    del document["metadata"]["uid"]
    document["spec"]["containers"][0]["image"] = "i"
    await client.create_raw(resource_of(Pod), "default", {"apiVersion": "v1", "kind": "Pod", **document})
    live = await client.get(Pod, "default", "p")
    made = extender(world([node("a")]), ByName, Unseen)
    made.handle.client = client
    by_name = next(
        plugin
        for plugin in made.profiles.frameworks["default-scheduler"].plugins
        if isinstance(plugin, ByName)
    )
    later, earlier = pod_document("p", uid=live.metadata.uid), pod_document("p", uid="uid-1")
    made.filter(filter_body(later, ["a"]))
    assert json.loads(await made.bind(bind_body(later, "a"))) == {"Error": ""}
    made.filter(filter_body(earlier, ["a"]))
    assert "expected uid-1" in json.loads(await made.bind(bind_body(earlier, "a")))["Error"]
    assert by_name.reserved == {"default/p": live.metadata.uid}


async def test_a_pod_that_is_gone_before_its_binding_is_answered_is_forgotten() -> None:
    cluster = world([node("a")], [pod("p")])
    made = extender(cluster, Vanishes)
    [framework] = made.profiles.frameworks.values()
    forgotten: list[tuple[str, str]] = []
    framework.handle.on_forget(lambda pod, node_name: forgotten.append((pod.metadata.uid, node_name)))
    assert json.loads(await made.bind(bind_body(pod_document("p"), "a"))) == {"Error": ""}
    assert forgotten == [("uid-p", "a")]
    assert made.binds.bound.uids == []
