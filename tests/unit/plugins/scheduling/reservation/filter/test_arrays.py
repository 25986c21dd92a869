"""The arrays say of every reservation what the filter of single nodes says, resource by resource."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node
from koordpy.api.device_class import DeviceClass
from koordpy.api.scheme import decode
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS
from koordpy_plugins.scheduling.reservation.attempt.prepared import PREPARED
from koordpy_plugins.scheduling.reservation.attempt.reservation_fits import ReservationFits
from koordpy_plugins.scheduling.reservation.filter import arrays
from koordpy_plugins.scheduling.reservation.filter.node import NodeFilter
from koordpy_plugins.scheduling.reservation.fit import scoring
from koordpy_plugins.scheduling.reservation.fit.node import lacking_on_node
from koordpy_plugins.scheduling.reservation.fit.reservation import lacking_in_reservation
from koordpy_plugins.scheduling.reservation.fit.rules import concerns
from tests.unit.scheduling.worlds import node, pod

from ..scenes import Scene, claimant, reservation, user

_AMOUNT = st.sampled_from(["0", "1", "2", "1500m", "3", "100u"])

_GPUS = st.sampled_from(["0", "1", "2"])

_GPU_CLASS = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "x.io/gpu"}}

_IGNORED = {"ignoredResources": ["x.io/gpu"]}


@st.composite
def _scene(draw: st.DrawFn) -> tuple[Scene, Any]:
    nodes = [node(f"n{i}", cpu=draw(st.sampled_from(["2", "4", "6"])), pods="3") for i in range(3)]
    for each in nodes:
        if draw(st.booleans()):
            each.status.allocatable = {**each.status.allocatable, "x.io/gpu": draw(_GPUS)}
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
        if draw(st.booleans()):
            made.status.allocatable = {**made.status.allocatable, "x.io/gpu": "1"}
        objects.append(made)
        if draw(st.booleans()):
            objects.append(user(f"u{i}", f"r{i}", draw(_AMOUNT), where))
    objects.extend(pod(f"p{i}", draw(_AMOUNT), "1Gi", f"n{i}") for i in range(3) if draw(st.booleans()))
    requests = {"cpu": draw(_AMOUNT), "memory": draw(st.sampled_from(["0", "1Gi"]))}
    if draw(st.booleans()):
        requests["x.io/gpu"] = draw(_GPUS)
    wanted = claimant(
        "x",
        affinity=draw(st.sampled_from([None, ""])),
        containers=[{"name": "c", "resources": {"requests": requests}}],
    )
    scene = Scene(nodes, objects, args=_IGNORED if draw(st.booleans()) else {})
    if draw(st.booleans()):
        scene.cluster.late_store(DeviceClass).apply(decode(DeviceClass, _GPU_CLASS))
    return scene, wanted


@settings(max_examples=150, deadline=None)
@given(_scene(), st.booleans())
def test_arrays_and_scalars_find_the_same_reservations_fit_for_the_same_reasons(
    made: tuple[Scene, Any], skips: bool
) -> None:
    scene, wanted = made
    state, _ = scene.find(wanted)
    prepared = state.read(PREPARED)
    assert prepared is not None
    ignores, classes = scene.args.ignores, scene.cluster.shared(DeviceClasses)
    matchable, node_filter = (
        scene.plugin.withheld.matchable,
        NodeFilter(ignores, scene.plugin.withheld, classes),
    )
    nodes = scene.plugin.transform_nodes(state, wanted, scene.nodes)
    found, causes = arrays.compare(
        prepared, nodes, matchable, ignores, classes.class_of, skip_node_if_alone=skips, skip_node=skips
    )
    totals = arrays.scores(prepared, matchable, found.slots, scene.cluster.nodes)
    requirements, lacking = prepared.requirements, causes.shortage
    assert len(found.at) == len(prepared.matches.slots)
    for index, slot in enumerate(found.slots.tolist()):
        info, view = matchable.info(slot), NodeInfo(nodes, int(found.at[index]))
        match = prepared.matches[view.row]
        alone = node_filter.with_reservations(
            prepared, match, view, [info], lambda _: SUCCESS, required=True, skip_node=skips
        )
        if found.unsure[index]:
            continue
        assert found.passes[index] == alone.is_success, (info.name, alone)
        assert totals[index] == scoring.score(requirements.requests, info, {})
        assert bool(causes.concerned[index]) == (
            requirements.affinity is not None or concerns(info.resource_names, requirements.requests)
        )
        # The same rules, resource by resource.
        amounts = node_filter.amounts(prepared, match, view, requirements.vector)
        for mask, available in ((lacking.on_node, info.available), (lacking.on_node_alone, {})):
            names = {name for name, short in zip(lacking.names, mask[index], strict=True) if short}
            names |= {"pods"} if causes.crowded[index] else set()
            expected = lacking_on_node(
                requirements.vector,
                amounts,
                ignores,
                available=available,
                leaving=len(match.matched),
            )
            known = set(scene.cluster.nodes.resources.names)  # no node lacks what no node ever had
            assert names == set(expected) & known
        if info.policy == "Restricted":
            inside = {name for name, short in zip(lacking.names, lacking.inside[index], strict=True) if short}
            reasons = {f"Insufficient {name}" for name in inside}
            reasons |= {"Too many pods"} if causes.full[index] else set()
            assert reasons == set(
                lacking_in_reservation(requirements.requests, info, ignores, preemptible={}, detailed=False)
            )


@settings(max_examples=60, deadline=None)
@given(_scene(), st.lists(st.booleans(), min_size=3, max_size=3))
def test_what_is_found_holds_among_some_of_the_nodes(made: tuple[Scene, Any], kept: list[bool]) -> None:
    scene, wanted = made
    state, _ = scene.find(wanted)
    prepared = state.read(PREPARED)
    assert prepared is not None
    classes = scene.cluster.shared(DeviceClasses)

    def compare(nodes: NodeSet) -> ReservationFits:
        matchable, ignores = scene.plugin.withheld.matchable, scene.args.ignores
        skipped = {"skip_node_if_alone": False, "skip_node": False}
        return arrays.compare(prepared, nodes, matchable, ignores, classes.class_of, **skipped)[0]

    nodes = scene.plugin.transform_nodes(state, wanted, scene.nodes)
    some = scene.plugin.transform_nodes(state, wanted, scene.nodes.subset(np.array(kept)))
    found, expected = compare(nodes).among(nodes, some), compare(some)
    for field in dataclasses.fields(ReservationFits):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name))


@pytest.mark.parametrize("requested", [("x.io/old", "x.io/new"), ("x.io/new", "x.io/old")])
def test_a_resource_that_came_after_the_reservations_hides_no_other(requested: tuple[str, str]) -> None:
    def offering(**amounts: str) -> Node:
        made = node("n1")
        made.status.allocatable |= {f"x.io/{name}": amount for name, amount in amounts.items()}
        return made

    made = reservation("r", "n1", owners=[{}], allocatePolicy="Restricted")
    made.status.allocatable = {**made.status.allocatable, "x.io/old": "1"}
    scene = Scene([offering(old="4k")], [made])
    scene.cluster.store(Node).apply(offering(old="4k", new="5k"))
    amounts = {"x.io/old": "2", "x.io/new": "1"}
    containers = [{"name": "c", "resources": {"requests": {name: amounts[name] for name in requested}}}]
    wanted = claimant("x", affinity="{}", containers=containers)
    assert scene.reasons(wanted) == {"n1": ("Reservation(s) Insufficient x.io/old",)}


@settings(max_examples=100, deadline=None)
@given(_scene())
def test_every_node_gets_the_status_of_the_filter_of_single_nodes(made: tuple[Scene, Any]) -> None:
    scene, wanted = made
    state, _ = scene.find(wanted)
    prepared = state.read(PREPARED)
    assert prepared is not None
    node_filter = NodeFilter(scene.args.ignores, scene.plugin.withheld, scene.cluster.shared(DeviceClasses))
    nodes = scene.plugin.transform_nodes(state, wanted, scene.nodes)
    verdict = scene.plugin.filter_nodes(state, wanted, nodes)
    for index in range(len(nodes)):
        view = NodeInfo(nodes, index)
        match = prepared.matches.get(view.row)
        if match is None:
            assert verdict.status(index).is_success is (prepared.requirements.affinity is None)
            continue
        expected = node_filter.with_reservations(
            prepared,
            match,
            view,
            match.matched,
            lambda _: SUCCESS,
            required=prepared.required,
            skip_node=False,
        )
        assert verdict.status(index) == expected
