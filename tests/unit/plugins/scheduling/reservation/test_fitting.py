"""The arrays come to what the judge of single nodes comes to."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS
from koordpy_plugins.scheduling.reservation import fitting, scoring
from koordpy_plugins.scheduling.reservation.judge import Judge
from koordpy_plugins.scheduling.reservation.prepared import PREPARED
from tests.unit.scheduling.worlds import node, pod

from .scenes import Scene, claimant, reservation, user

_AMOUNT = st.sampled_from(["0", "1", "2", "1500m", "3", "100u"])


@st.composite
def _scene(draw: st.DrawFn) -> tuple[Scene, Any]:
    nodes = [node(f"n{i}", cpu=draw(st.sampled_from(["2", "4", "6"])), pods="3") for i in range(3)]
    objects: list[Any] = []
    for i in range(draw(st.integers(0, 5))):
        where = f"n{draw(st.integers(0, 2))}"
        inner = '{"resources":{"cpu":"500m"}}' if draw(st.booleans()) else "{}"
        made = reservation(
            f"r{i}",
            where,
            draw(_AMOUNT),
            owners=[{}],
            allocatePolicy=draw(st.sampled_from(["Aligned", "Restricted"])),
            allocateOnce=draw(st.booleans()),
            annotations={"node.koordinator.sh/reservation": inner},
        )
        if draw(st.booleans()):
            made.status.allocatable = {**made.status.allocatable, "memory": "1Gi", "pods": "1"}
        objects.append(made)
        if draw(st.booleans()):
            objects.append(user(f"u{i}", f"r{i}", draw(_AMOUNT), where))
    objects.extend(pod(f"p{i}", draw(_AMOUNT), "1Gi", f"n{i}") for i in range(3) if draw(st.booleans()))
    requests = {"cpu": draw(_AMOUNT), "memory": draw(st.sampled_from(["0", "1Gi"]))}
    if draw(st.booleans()):
        requests["x.io/gpu"] = draw(st.sampled_from(["0", "1"]))
    wanted = claimant(
        "x",
        affinity=draw(st.sampled_from([None, ""])),
        containers=[{"name": "c", "resources": {"requests": requests}}],
    )
    return Scene(nodes, objects), wanted


@settings(max_examples=100, deadline=None)
@given(_scene(), st.booleans())
def test_arrays_and_judge_agree(made: tuple[Scene, Any], skips: bool) -> None:
    scene, wanted = made
    state, _ = scene.find(wanted)
    prepared = state.read(PREPARED)
    assert prepared is not None
    book, judge = scene.plugin.withheld.book, Judge(lambda _: False, scene.plugin.withheld)
    _, nodes, _ = scene.plugin.before_filter(state, wanted, scene.nodes)
    found = fitting.fit(prepared, nodes, book, judge.ignores, skips_node_alone=skips, skips_node=skips)
    totals = fitting.scores(prepared, book, found.slots, scene.cluster.nodes)
    assert len(found.at) == len(prepared.matches.slots)
    for at, slot, passes, unsure, total in zip(
        found.at.tolist(), found.slots.tolist(), found.passes, found.unsure, totals.tolist(), strict=True
    ):
        info, view = book.info(slot), NodeInfo(nodes, at)
        match = prepared.matches[view.row]
        alone = judge.with_reservations(
            prepared, match, view, [info], lambda _: SUCCESS, required=True, skip_node=skips
        )
        if not unsure:
            assert passes == alone.is_success, (info.name, alone)
            assert total == scoring.score(prepared.wish.requests, info, {})


@settings(max_examples=100, deadline=None)
@given(_scene())
def test_every_node_gets_what_the_judge_says_of_it(made: tuple[Scene, Any]) -> None:
    scene, wanted = made
    state, _ = scene.find(wanted)
    prepared = state.read(PREPARED)
    assert prepared is not None
    judge = Judge(lambda _: False, scene.plugin.withheld)
    _, nodes, _ = scene.plugin.before_filter(state, wanted, scene.nodes)
    verdict = scene.plugin.filter_nodes(state, wanted, nodes)
    for index in range(len(nodes)):
        view = NodeInfo(nodes, index)
        match = prepared.matches.get(view.row)
        if match is None:
            assert verdict.status(index).is_success is (prepared.wish.affinity is None)
            continue
        expected = judge.with_reservations(
            prepared,
            match,
            view,
            match.matched,
            lambda _: SUCCESS,
            required=prepared.required,
            skip_node=False,
        )
        assert verdict.status(index) == expected
