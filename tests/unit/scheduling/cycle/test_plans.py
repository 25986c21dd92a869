"""After any calls and events, plans are bounded and refer to existing pods and nodes."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import encode
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.cycle.plans import KEPT_SECONDS, Plans
from koordpy.scheduling.extender.extender import Extender

from ..planner import JOB, Planner
from ..worlds import bind_body, extender, filter_body, node, pod, world

NODES = ("a", "b", "c", "d")
PODS = tuple(f"p{number}" for number in range(6))
MOST = 5

EVENTS = (*["filter"] * 4, *["bind"] * 2, "add", "delete", "end", "lose", "find", "wait", "what-if")

step = st.tuples(
    st.sampled_from(EVENTS),
    st.sampled_from(PODS),
    st.one_of(st.permutations(NODES), st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True)),
)


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    Planner.reset()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(step, min_size=5, max_size=40), st.sampled_from(["", "p1", "p4"]), st.sampled_from(["", "p2"])
)
def test_plans_stay_true(steps: list[tuple[str, str, list[str]]], refused: str, failing: str) -> None:
    Planner.reset()
    Planner.refuses, Planner.fails = {refused}, {failing}
    cluster = world([node(name) for name in NODES])
    made = extender(cluster, Planner)
    made.plans = made.binds.plans = Plans(made.profiles.frameworks.values(), made.handle, most_pods=MOST)
    assert isinstance(made.clock, FakeClock)
    serial = 0
    beginning = [("add", name, list(NODES)) for name in PODS]
    for what, name, names in beginning + steps:
        known = cluster.store(Pod).get("default", name)
        if what == "add":
            serial += 1
            added = pod(name, uid=f"uid-{serial}")
            added.metadata.labels = {JOB: "even" if int(name[1]) % 2 else "odd"}
            if known is None:
                cluster.store(Pod).apply(added)
        elif what == "lose":
            cluster.store(Node).discard(names[0])
        elif what == "find":
            cluster.store(Node).apply(node(names[0]))
        elif what == "wait":
            made.clock.advance(KEPT_SECONDS / 2)
        elif known is None:
            continue
        elif what == "delete":
            cluster.store(Pod).discard("default/" + name)
        elif what == "end":
            known.status.phase = "Succeeded"
            cluster.store(Pod).apply(known)
        elif what == "what-if":
            before = dict(made.plans._of)
            framework = made.profiles.wholes["default-scheduler"]
            framework.find_feasible(framework.new_state(), known, cluster.nodes.all())
            assert made.plans._of == before
        elif not (known.is_terminal or known.spec.node_name):
            ask(made, what, known, names, NODES.index(names[0]))
        check(made)
    made.clock.advance(KEPT_SECONDS + 1)
    alone = pod("alone")
    made.filter(filter_body(json.loads(encode(alone)), NODES))
    assert len(made.plans) == len(made.plans._kept) == 0


def ask(made: Extender, what: str, known: Pod, names: list[str], turn: int) -> None:
    document = json.loads(encode(known))
    if what == "bind":
        asyncio.run(made.bind(bind_body(document, names[0])))
        return
    planned = made.plans.node_of(known)
    Planner.order = (*NODES[turn:], *NODES[:turn], *NODES)
    held = len(Planner.planned_for)
    kept = json.loads(made.filter(filter_body(document, names))[0]).get("NodeNames") or []
    if planned in names and len(Planner.planned_for) == held:
        assert kept in ([], [planned])


def check(made: Extender) -> None:
    plans = made.plans
    assert len(plans) <= MOST
    assert {uid for kept in plans._kept for uid in kept.nodes} == plans._of.keys()
    for kept in plans._kept:
        assert kept.nodes
        for uid, node_name in kept.nodes.items():
            assert plans._of[uid] is kept
            found = [each for each in made.handle.cluster.store(Pod) if each.metadata.uid == uid]
            assert len(found) == 1
            assert not found[0].spec.node_name
            assert not found[0].is_terminal
            assert made.nodes.row_of(node_name) is not None
