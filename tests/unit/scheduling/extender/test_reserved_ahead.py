"""A pod that has one node is reserved there until its bind call, for all plugins with Reserve."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.cluster.columns import CPU
from koordpy.cluster.nodes import NodeSet
from koordpy.http.routes.extender import endpoints
from koordpy.http.server.direct import Reply
from koordpy.lib.clock import FakeClock, SystemClock
from koordpy.scheduling.cycle import tentative
from koordpy.scheduling.cycle.fence import Limits
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.tentative import Ahead, TentativeReserves
from koordpy.scheduling.extender.attempts import Attempt
from koordpy.scheduling.interface import (
    Binding,
    Filter,
    PlansJobs,
    Plugin,
    PreBind,
    PreFilter,
    Reserve,
    Score,
    TentativeReserve,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Status
from tests.eventually import becomes_true

from ..worlds import bind_body, extender, filter_body, node, pod, pod_document, world

TOKEN: StateKey[int] = StateKey("token")
TOKENS = 2


class Tokens(Plugin, Filter, Score, Reserve, PreBind):
    """Hands out two tokens of each node; refuses nodes with a taint."""

    name = "Tokens"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []
        self.broken = self.cannot_write = False
        self.most = TOKENS
        self.taken: dict[tuple[str, int], str] = {}

    def free(self, node_name: str) -> list[int]:
        return [token for token in range(self.most) if (node_name, token) not in self.taken]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if node.node.spec.taints:
            return Status.unschedulable("tainted")
        return SUCCESS if self.free(node.name) else Status.unschedulable("no token is left")

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(self.free(node.name))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.calls.append(f"reserve {pod.metadata.name}")
        if self.broken:
            return Status.unschedulable("broken")
        [token, *_] = self.free(node_name)
        self.taken[node_name, token] = pod.metadata.uid
        state.write(TOKEN, token)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.calls.append(f"unreserve {pod.metadata.name}")
        token = state.read(TOKEN)
        if token is not None:
            del self.taken[node_name, token]

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        binding.annotations["token"] = str(state.read(TOKEN))
        return Status.unschedulable("cannot be written") if self.cannot_write else SUCCESS


class Counts(Plugin, Reserve, TentativeReserve):
    """Counts pods from filter on, wherever they go."""

    name = "Counts"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.counted: set[str] = set()
        self.reserved: set[str] = set()
        self.broken = False

    def reserve_tentatively(self, state: CycleState, pod: Pod) -> None:
        self.counted.add(pod.metadata.name)
        if self.broken:
            raise RuntimeError("broken")

    def unreserve_tentatively(self, pod: Pod) -> None:
        self.counted.discard(pod.metadata.name)
        if self.broken:
            raise RuntimeError("broken")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.reserved.add(pod.metadata.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.discard(pod.metadata.name)


class Plans(Plugin, PreFilter, PlansJobs):
    """May plan every pod together with others, though it never does."""

    name = "Plans"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return None, SUCCESS

    def may_plan(self, pod: Pod) -> bool:
        return True

    def job_of(self, pod: Pod) -> None:
        return None


class Moves:
    """A queue that remembers which pods gave back what they had."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def activate(self, pod: Pod) -> None:
        raise AssertionError(pod)

    def move_all(self, event: ClusterEvent) -> None:
        assert event.kind is Pod
        assert event.old is not None
        assert event.new is None
        self.names.append(event.old.metadata.name)


class World:
    """An extender over two nodes and three waiting pods, called as its endpoints do."""

    def __init__(self, *classes: type[Plugin]) -> None:
        self.nodes = {name: node(name) for name in ("a", "b")}
        self.cluster = world(self.nodes.values(), [pod(f"p{i}") for i in range(3)])
        self.extender = extender(self.cluster, Tokens, Counts, *classes)
        self.table = self.cluster.nodes
        [framework] = self.extender.profiles.frameworks.values()
        plugins = {plugin.name: plugin for plugin in framework.plugins}
        tokens, counts = plugins["Tokens"], plugins["Counts"]
        assert isinstance(tokens, Tokens)
        assert isinstance(counts, Counts)
        self.tokens, self.counts = tokens, counts
        self.moves = Moves()
        framework.handle.queue.join(self.moves)

    def filter_only(self, name: str, *nodes: str) -> tuple[list[str], Attempt | None]:
        """Filter, without what follows once the answer is sent."""
        answer, attempt = self.extender.filter(filter_body(pod_document(name), nodes))
        return json.loads(answer)["NodeNames"], attempt

    def filter(self, name: str, *nodes: str) -> list[str]:
        kept, attempt = self.filter_only(name, *nodes)
        if attempt is not None:
            self.extender.work_ahead(attempt)
        return kept

    def placed(self, name: str, node_name: str) -> Placement:
        """Return a placement that is reserved."""
        [framework] = self.extender.profiles.frameworks.values()
        placement = Placement(framework, framework.new_state(), pod(name), node_name)
        assert placement.reserve().is_success
        return placement

    async def bind(self, name: str, node_name: str) -> str:
        error: str = json.loads(await self.extender.bind(bind_body(pod_document(name), node_name)))["Error"]
        return error

    def token_of(self, name: str) -> str:
        found = self.cluster.store(Pod).get("default", name)
        assert found is not None
        return found.metadata.annotations["token"]

    def holds(self, *names: str) -> bool:
        """Return whether all that is held is held for these pods."""
        uids = {f"uid-{name}" for name in names}
        assumed = {f"uid-p{i}" for i in range(3) if self.table.is_assumed(f"uid-p{i}")}
        return set(self.tokens.taken.values()) == assumed == uids and self.counts.reserved == set(names)


async def test_reserve_runs_once_before_the_next_filter_and_its_result_is_bound() -> None:
    w = World()
    assert w.filter("p0", "a") == w.filter("p1", "a") == ["a"]
    assert w.filter("p2", "a") == []
    assert w.holds("p0", "p1")
    assert [await w.bind(name, "a") for name in ("p1", "p0")] == ["", ""]
    assert w.tokens.calls == ["reserve p0", "reserve p1"]
    assert [w.token_of(name) for name in ("p0", "p1")] == ["0", "1"]
    assert not len(w.extender.tentative)


async def test_where_several_nodes_are_answered_only_tentative_reserve_counts() -> None:
    w = World()
    assert w.filter("p0", "a", "b") == ["a", "b"]
    assert w.counts.counted == {"p0"}
    assert w.holds()
    assert w.filter("p0", "a") == ["a"]
    assert w.counts.counted == set()
    assert w.holds("p0")


async def test_pods_of_jobs_are_left_to_their_plan() -> None:
    w = World(Plans)
    assert w.filter("p0", "a") == ["a"]
    assert w.holds()
    assert w.counts.counted == {"p0"}


@pytest.mark.parametrize("end", ["filter", "delete", "expire", "close", "preempt", "bound elsewhere"])
async def test_what_is_held_is_released(end: str) -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    assert w.holds("p0")
    if end == "filter":
        assert w.filter("p0", "b") == ["b"]
        assert w.tokens.taken == {("b", 0): "uid-p0"}
        assert w.tokens.calls == ["reserve p0", "unreserve p0", "reserve p0"]
        return
    if end == "delete":
        w.cluster.store(Pod).discard("default/p0")
    elif end == "preempt":
        waiting = w.extender.handle.waiting_pods
        assert [waiting.preempt(uid, "Preempts") for uid in ("uid-p0", "uid-p0", "uid-p1")] == [
            True,
            False,
            False,
        ]
    elif end == "close":
        w.extender.close("the process ends")
    elif end == "expire":
        assert isinstance(w.extender.clock, FakeClock)
        w.extender.clock.advance(tentative.SECONDS)
        w.extender.tentative._expire()
    else:
        w.cluster.store(Pod).apply(pod("p0", node_name="b"))
        assert w.table.placed_on("uid-p0") == "b"
    assert w.holds()
    assert w.tokens.calls == ["reserve p0", "unreserve p0"]
    assert not len(w.extender.tentative)
    assert w.moves.names == ["p0"]


async def test_others_are_retried_after_a_new_filter_call_only_if_the_pod_is_not_held_there_again() -> None:
    w = World()
    assert w.filter("p0", "a") == w.filter("p0", "a") == ["a"]
    assert w.moves.names == []
    assert w.filter("p0", "b") == ["b"]
    assert w.moves.names == ["p0"]
    assert w.filter("p0") == []
    assert w.moves.names == ["p0", "p0"]
    assert w.filter("p0", "a", "b") == w.filter("p0", "a", "b") == ["a", "b"]
    assert w.filter("p0", "a") == ["a"]
    assert w.moves.names == ["p0", "p0"]
    assert w.filter("p0", "a", "b") == ["a", "b"]
    assert w.moves.names == ["p0", "p0", "p0"]
    assert w.counts.counted == {"p0"}


async def test_others_are_retried_if_another_filter_call_comes_before_the_pod_is_held_again() -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    w.filter_only("p0", "b")
    assert w.filter("p1", "a") == ["a"]
    assert w.moves.names == ["p0"]


async def test_others_are_retried_after_a_bind_call_only_if_it_fails() -> None:
    w = World()
    assert w.filter("p0", "a") == w.filter("p1", "a") == ["a"]
    assert await w.bind("p0", "a") == ""
    assert w.moves.names == []
    w.tokens.cannot_write = True
    assert await w.bind("p1", "a") == "Tokens: cannot be written"
    assert w.moves.names == ["p1"]


async def test_a_failed_reserve_retries_no_others() -> None:
    w = World()
    w.tokens.broken = True
    assert w.filter("p0", "a") == ["a"]
    assert await w.bind("p0", "a") == "Tokens: broken"
    assert w.moves.names == []


async def test_a_bind_call_reserves_where_nothing_is_held_any_more() -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    w.extender.tentative.clear()
    assert w.holds()
    assert await w.bind("p0", "a") == ""
    assert w.tokens.calls == ["reserve p0", "unreserve p0", "reserve p0"]
    assert w.token_of("p0") == "0"


async def test_a_bind_call_for_another_node_releases_the_one_that_was_held() -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    assert await w.bind("p0", "b") == ""
    assert w.tokens.taken == {("b", 0): "uid-p0"}


async def test_a_node_that_has_changed_is_filtered_again() -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    w.cluster.store(Node).apply(node("a", taints=[{"key": "broken", "effect": "NoSchedule"}]))
    assert await w.bind("p0", "a") == "Tokens: tainted"
    assert w.holds()


async def test_a_node_that_changes_before_it_is_reserved_is_filtered_again() -> None:
    w = World()
    kept, attempt = w.filter_only("p0", "a")
    assert kept == ["a"]
    assert attempt is not None
    w.cluster.store(Node).apply(node("a", taints=[{"key": "broken", "effect": "NoSchedule"}]))
    w.extender.work_ahead(attempt)
    assert w.holds()
    assert await w.bind("p0", "a") == "Tokens: tainted"


async def test_nothing_is_reserved_for_an_attempt_that_another_has_replaced() -> None:
    w = World()
    _, first = w.filter_only("p0", "a")
    assert first is not None
    assert w.filter("p0", "b") == ["b"]
    w.extender.work_ahead(first)
    assert w.holds("p0")
    assert w.tokens.taken == {("b", 0): "uid-p0"}


@pytest.mark.parametrize("now", [{"uid": "uid-of-another"}, {"status": {"phase": "Failed"}}])
async def test_nothing_is_reserved_for_a_pod_that_has_ended_or_was_replaced(now: dict[str, Any]) -> None:
    w = World()
    w.cluster.store(Pod).apply(pod("p0", **now))
    assert w.filter("p0", "a") == ["a"]
    assert w.holds()
    assert w.tokens.calls == []


async def test_what_a_pod_holds_does_not_count_against_it_when_kube_scheduler_preempts_for_it() -> None:
    w = World()
    w.cluster.store(Pod).apply(pod("low", node_name="a", priority=-1))
    assert w.filter("p0", "a") == ["a"]
    w.tokens.most = 1
    victims = {"a": {"Pods": [{"UID": "uid-low"}]}}
    body = {"Pod": pod_document("p0"), "NodeNameToMetaVictims": victims}
    answer = json.loads(w.extender.preempt(json.dumps(body).encode()))
    assert [each["UID"] for each in answer["NodeNameToMetaVictims"]["a"]["Pods"]] == ["uid-low"]
    assert w.holds()


async def test_a_pod_is_reserved_as_the_watch_shows_it() -> None:
    w = World()
    w.cluster.store(Pod).apply(pod("p0", cpu="2"))
    assert w.filter("p0", "a") == ["a"]
    row = w.table.row_of("a")
    assert row is not None
    assert w.table.requested[row, CPU] == 2000


@pytest.mark.parametrize("now", [{"node_name": "b"}, {"status": {"phase": "Failed"}}])
async def test_what_is_held_is_released_when_the_watch_first_shows_a_pod_that_needs_no_node(
    now: dict[str, Any],
) -> None:
    w = World()
    w.cluster.store(Pod).discard("default/p0")
    assert w.filter("p0", "a") == ["a"]
    assert w.holds("p0")
    w.cluster.store(Pod).apply(pod("p0", **now))
    assert w.holds()
    assert not len(w.extender.tentative)


async def test_what_is_held_is_released_when_another_pod_has_the_name() -> None:
    w = World()
    w.cluster.store(Pod).discard("default/p0")
    assert w.filter("p0", "a") == ["a"]
    assert w.holds("p0")
    w.cluster.store(Pod).apply(pod("p0", uid="uid-of-another"))
    assert w.holds()
    assert not len(w.extender.tentative)


async def test_one_pod_of_a_name_is_held() -> None:
    w = World()
    w.cluster.store(Pod).discard("default/p0")
    for uid in ("uid-of-one", "uid-of-another"):
        body = filter_body(pod_document("p0", uid=uid), ["a"])
        _, attempt = w.extender.filter(body)
        assert attempt is not None
        w.extender.work_ahead(attempt)
        assert list(w.tokens.taken.values()) == [uid]


async def test_pods_that_come_to_the_node_meanwhile_do_not_matter() -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    w.cluster.store(Pod).apply(pod("other", node_name="a"))
    assert await w.bind("p0", "a") == ""
    assert w.tokens.calls == ["reserve p0"]


async def test_a_failed_reserve_is_reported_by_the_bind_call_and_leaves_nothing() -> None:
    w = World()
    w.tokens.broken = True
    assert w.filter("p0", "a") == ["a"]
    assert w.holds()
    assert w.counts.counted == {"p0"}
    assert await w.bind("p0", "a") == "Tokens: broken"
    assert w.holds()
    assert w.counts.counted == set()


async def test_nothing_is_reserved_outside_a_term_and_nothing_is_bound_that_was_reserved_in_another() -> None:
    w = World()
    fence, clock = w.extender.binds.fence, w.extender.clock
    fence.enable(Limits(10, 12, 15), lambda: "not leading")
    assert w.filter("p0", "a") == ["a"]
    assert w.holds()
    fence.confirm(clock.monotonic())
    fence.open()
    assert w.filter("p0", "a") == ["a"]
    assert w.holds("p0")
    fence.shut()
    fence.confirm(clock.monotonic())
    fence.open()
    assert await w.bind("p0", "a") == ""
    assert w.tokens.calls == ["reserve p0", "unreserve p0", "reserve p0"]
    assert w.filter("p1", "a") == ["a"]
    fence.shut()
    assert w.filter("p2", "a") == ["a"]
    assert w.counts.reserved == {"p0"}


async def test_what_was_reserved_in_one_term_is_released_in_the_next() -> None:
    w = World()
    fence, clock = w.extender.binds.fence, w.extender.clock
    fence.enable(Limits(10, 12, 15), lambda: "not leading")
    for name in ("p0", "p1"):
        fence.confirm(clock.monotonic())
        fence.open()
        assert w.filter(name, "a") == ["a"]
        assert w.holds(name)
        fence.shut()


async def test_what_was_reserved_in_one_term_is_released_bit_by_bit_before_the_next_filter_answer() -> None:
    w = World()
    w.tokens.most = 3 * tentative.AT_ONCE
    fence, clock = w.extender.binds.fence, w.extender.clock
    fence.enable(Limits(10, 12, 15), lambda: "not leading")
    fence.confirm(clock.monotonic())
    fence.open()
    for i in range(w.tokens.most):
        _, attempt = w.extender.filter(filter_body(pod_document(f"q{i}", cpu="1m", memory="1Mi"), ["a"]))
        assert attempt is not None
        w.extender.work_ahead(attempt)
    assert len(w.tokens.taken) == w.tokens.most
    fence.shut()
    call = endpoints(w.extender)["/extender/filter"]
    headers = [(b"content-type", b"application/json")]
    reply = call.respond(headers, filter_body(pod_document("p0"), ["a"]), asyncio.Future)
    assert not isinstance(reply, Reply)
    calling, seen = asyncio.ensure_future(reply), [w.tokens.most]
    while not calling.done():
        await asyncio.sleep(0)
        seen.append(len(w.tokens.taken))
    assert max(before - after for before, after in pairwise(seen)) <= tentative.AT_ONCE
    assert w.tokens.taken == {}
    answer = calling.result()
    assert answer is not None
    assert json.loads(answer.body)["NodeNames"] == ["a"]


async def test_what_is_held_is_released_by_itself_bit_by_bit() -> None:
    w = World()
    w.tokens.most = 3 * tentative.AT_ONCE
    held = TentativeReserves(w.extender.clock, 1.0)
    for i in range(w.tokens.most):
        held.hold(Ahead(w.placed(f"q{i}", "a"), 1), 1)
    assert isinstance(w.extender.clock, FakeClock)
    w.extender.clock.advance(1.0)
    held._expire()
    assert len(held) == 2 * tentative.AT_ONCE

    async def is_nothing_held() -> bool:
        return not len(held)

    await becomes_true(is_nothing_held)
    assert w.holds()


async def test_what_is_held_is_released_by_itself_the_oldest_first() -> None:
    w = World()
    held = TentativeReserves(SystemClock(), 0.01)
    held.hold(Ahead(w.placed("p0", "a"), 1), 1)
    held.hold(Ahead(w.placed("p1", "a"), 1), 1)

    async def is_nothing_held() -> bool:
        return not len(held)

    await becomes_true(is_nothing_held)
    assert w.holds()
    assert w.tokens.calls == ["reserve p0", "reserve p1", "unreserve p0", "unreserve p1"]


async def test_a_pod_is_held_for_its_whole_time() -> None:
    w = World()
    assert isinstance(w.extender.clock, FakeClock)
    assert w.filter("p0", "a") == ["a"]
    w.extender.clock.advance(tentative.SECONDS / 2)
    assert w.filter("p1", "a") == ["a"]
    w.extender.clock.advance(tentative.SECONDS / 2)
    w.extender.tentative._expire()
    assert w.holds("p1")


async def test_plugins_that_break_while_they_count_a_pod_do_not_keep_it_from_being_bound() -> None:
    w = World()
    w.counts.broken = True
    assert w.filter("p0", "a", "b") == ["a", "b"]
    assert w.counts.counted == {"p0"}
    assert await w.bind("p0", "b") == ""
    assert w.counts.counted == set()
    assert w.tokens.taken == {("b", 0): "uid-p0"}


async def test_the_oldest_are_released_when_too_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tentative, "MOST_PODS", 1)
    w = World()
    assert w.filter("p0", "a") == w.filter("p1", "a") == ["a"]
    assert w.holds("p1")


async def test_attempts_that_are_reserved_are_condensed_and_bound_all_the_same() -> None:
    w = World()
    for name in ("p0", "p1"):
        _, attempt = w.filter_only(name, "a")
        assert attempt is not None
        w.extender.attempts.budget.limit = attempt.size
        w.extender.work_ahead(attempt)
    assert [attempt.is_condensed for attempt in w.extender.attempts] == [True, False]
    assert w.holds("p0", "p1")
    assert [await w.bind(name, "a") for name in ("p0", "p1")] == ["", ""]
    assert w.tokens.calls == ["reserve p0", "reserve p1"]
    assert [w.token_of(name) for name in ("p0", "p1")] == ["0", "1"]


async def test_scores_of_a_pod_that_is_reserved_are_computed_anew() -> None:
    w = World()
    assert w.filter("p0", "a") == ["a"]
    answer = json.loads(w.extender.prioritize(filter_body(pod_document("p0"), ["a", "b"])))
    assert {each["Host"]: each["Score"] for each in answer} == {"a": 1, "b": 2}
    assert w.holds("p0")
