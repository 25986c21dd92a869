"""One scheduling cycle with the Reservation plugin alone, run by the framework."""

import asyncio
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.extension import ANNOTATION_RESERVATION_ALLOCATED
from koordpy.api.quantity import from_wire
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.api.resource_names import PODS as PODS_NAME
from koordpy.api.scheme import DecodeError, decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import PODS
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.gates import chosen
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.reservation.attempt.prepared import PREPARED, Prepared
from koordpy_plugins.scheduling.reservation.plugin import Reservation as ReservationPlugin

CODES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.SKIP: "Skip",
}


class World:
    """A cluster, and the framework of a profile that has nothing but the Reservation plugin."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.cluster = Cluster()
        handle = Handle(self.cluster)
        gates = chosen(SPECS, case["gates"])  # some vectors set gates that change nothing but speed
        config = read(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "profiles": [
                    {
                        "plugins": {
                            "multiPoint": {"enabled": [{"name": "Reservation"}], "disabled": [{"name": "*"}]}
                        },
                        "pluginConfig": [{"name": "Reservation", "args": case["args"]}],
                    }
                ],
            }
        )
        profiles = build(
            config,
            lambda _: handle,
            place=Place.EXTENDER,
            classes={"Reservation": ReservationPlugin},
            gates=gates,
        )
        self.framework: Framework = profiles.frameworks["default-scheduler"]
        self.plugin = next(p for p in self.framework.plugins if isinstance(p, ReservationPlugin))
        self.reservations = [decode(Reservation, each) for each in case["reservations"]]
        self.pods = [decode(Pod, each) for each in case["pods"]]
        for node in case["nodes"]:
            self.cluster.store(Node).apply(decode(Node, node))
        for _ in range(2 if case["settled"] else 1):
            for reservation in self.reservations:
                self.cluster.store(Reservation).apply(reservation)
            for pod in self.pods:
                self.cluster.store(Pod).apply(pod)

    def subject(self) -> Pod:
        """The incoming pod, or the reserve pod of the Reservation that is scheduled."""
        if "pod" in self.case:
            pod = decode(Pod, self.case["pod"])
            self.cluster.store(Pod).apply(pod)
            return pod
        name = self.case["schedule"]
        known = self.cluster.store(Reservation).get("", name)
        if known is not None:
            return new_reserve_pod(known)
        return new_reserve_pod(decode(Reservation, {"metadata": {"name": name, "uid": f"u{name}"}}))


def run(case: dict[str, Any], tag: str | None) -> object:
    world = World(case)
    pod = world.subject()
    framework, nodes = world.framework, world.cluster.nodes.all()
    order = sorted(range(len(nodes)), key=lambda index: nodes.names[index])
    nodes = nodes.table.select([nodes.names[index] for index in order])[0]
    state = framework.new_state()
    outcome = framework.run_pre_filter(state, pod, nodes)
    answer: dict[str, Any] = {"preFilter": _status(outcome.status)}
    if outcome.status.is_success:
        if "Reservation" in state.skip_filter:
            answer["preFilter"]["code"] = "Skip"
        if outcome.node_names is not None:
            answer["preFilter"]["nodes"] = sorted(outcome.node_names)
    prepared = state.read(PREPARED)
    if not outcome.status.is_success:
        refused = framework.find_feasible(framework.new_state(), pod, nodes)
        _post_filter(world, state, pod, refused, answer)
        return answer
    assert prepared is not None
    shown = world.plugin.transform_nodes(state, pod, nodes)
    answer["nodes"] = {name: _node(world, prepared, shown, index) for index, name in enumerate(shown.names)}
    allowed = [name for name in nodes.names if outcome.node_names is None or name in outcome.node_names]
    left = nodes.table.select(allowed)[0]
    if case.get("victims"):
        left = _without(world, state, pod, left, shown)
    result = framework.run_filters(state, pod, left)
    if outcome.node_names is not None:
        result.absent = [name for name in nodes.names if name not in allowed]
        result.absent_status = outcome.absent_status
    _filtered(answer, state, result)
    for name, pods in prepared.selected.items():
        answer["nodes"][name]["selected"] = [each.metadata.name for each in pods]
    if case.get("victims"):
        return answer
    if not result.feasible.any():
        _post_filter(world, state, pod, result, answer)
        return answer
    chosen = _score(world, state, pod, result.kept, answer)
    if chosen:
        answer["node"] = chosen
        answer["reserve"] = _reserve(world, state, pod, chosen)
    return answer


def _status(status: Status) -> dict[str, Any]:
    answer: dict[str, Any] = {"code": CODES[status.code]}
    if status.code is not Code.ERROR and status.reasons:
        answer["reasons"] = sorted(status.reasons)
    return answer


def _node(world: World, prepared: Prepared, nodes: NodeSet, index: int) -> dict[str, Any]:
    names, info = nodes.table.resources.names, NodeInfo(nodes, index)
    requested = {name: info.requested(name) for name in names if name != PODS_NAME}
    answer: dict[str, Any] = {
        "requested": {name: amount for name, amount in requested.items() if amount},
        "pods": int(nodes.requested(PODS)[index]),
    }
    match = prepared.matches.get(info.row)
    if match is not None and match.matched:
        answer["matched"] = sorted(each.name for each in match.matched)
    if match is not None and match.candidates:
        candidates = [each.metadata.name for each in match.candidates]
        assert prepared.reservation is not None
        assert prepared.reservation.reservation is not None
        in_order = prepared.reservation.reservation.uses_cluster_mode
        answer["candidates"] = candidates if in_order else sorted(candidates)
    unmatched = world.plugin.unmatched_on(prepared, info.row)
    if unmatched:
        answer["unmatched"] = sorted(each.name for each in unmatched)
    assert len(list(info.pods)) == answer["pods"]
    return answer


def _without(world: World, state: CycleState, pod: Pod, nodes: NodeSet, shown: NodeSet) -> NodeSet:
    """Take away those of the victims that the attempt sees, as a preemption trial does."""
    seen = {each.metadata.uid for row in shown.rows.tolist() for each in shown.pods_on(row)}
    sandbox = Sandbox(nodes)
    for index, name in enumerate(nodes.names):
        victims = [
            each
            for each in world.pods
            if each.metadata.name in world.case["victims"]
            and each.spec.node_name == name
            and each.metadata.uid in seen
        ]
        for victim in victims:
            world.framework.remove_pod(state, pod, victim, NodeInfo(nodes, index))
        sandbox.take(index, victims)
    return sandbox.nodes


def _filtered(answer: dict[str, Any], state: CycleState, result: FilterOutcome) -> None:
    if "Reservation" in state.skip_filter:
        for node in answer["nodes"].values():
            node["filter"] = {"code": "NotRun"}
        return
    for index, name in enumerate(result.nodes.names):
        answer["nodes"][name]["filter"] = _status(result.status(index))
    for name in result.absent:
        answer["nodes"][name]["filter"] = {"code": "NotAllowed"}


def _post_filter(
    world: World, state: CycleState, pod: Pod, result: FilterOutcome, answer: dict[str, Any]
) -> None:
    if result.error is not None or (not result.prefilter.is_success and not result.prefilter.is_rejected):
        return
    _, status = asyncio.run(world.framework.run_post_filter(state, pod, result))
    if status.reasons:
        answer["postFilter"] = sorted(status.reasons)


def _score(world: World, state: CycleState, pod: Pod, kept: NodeSet, answer: dict[str, Any]) -> str:
    framework, plugin = world.framework, world.plugin
    prepared = state.read(PREPARED)
    assert prepared is not None
    scores, status = framework.run_score(state, pod, kept)
    if scores is None:
        answer["preScore"] = CODES[status.code]
        return ""
    if "Reservation" in state.skip_score:
        answer["preScore"] = "Skip"
        if prepared.takes_many:
            for name in kept.names:
                answer["nodes"][name]["rawScoreIfRun"] = int(
                    plugin.score(state, pod, NodeInfo(kept, kept.names.index(name)))
                )
    else:
        answer["preScore"] = "Success"
        raw = plugin.score_nodes(state, pod, kept)
        for index, name in enumerate(kept.names):
            node = answer["nodes"][name]
            node["score"], node["norm"] = int(raw[index]), int(scores.by_plugin["Reservation"][index])
            node_row = int(kept.rows[index])
            chosen = prepared.nominated_reservations.get(node_row)
            if chosen is not None:
                node["nominated"] = chosen.name
            elif prepared.nominated_pods.get(name):
                node["nominated"] = prepared.nominated_pods[name][0].metadata.name
    totals = scores.total.tolist()
    return min(kept.names, key=lambda name: (-totals[list(kept.names).index(name)], name))


def _reserve(world: World, state: CycleState, pod: Pod, node_name: str) -> dict[str, Any]:
    framework = world.framework
    status = framework.nominate_reservation(state, pod, node_name)
    if not status.is_success:
        return {"nominate": _status(status)}
    status = framework.run_reserve(state, pod, node_name)
    answer = _status(status)
    prepared = state.read(PREPARED)
    if not status.is_success or prepared is None:
        return answer
    if prepared.assumed is not None:
        answer["reservation"] = prepared.assumed.name
    if prepared.pre_allocated:
        answer["preAllocated"] = [each.metadata.name for each in prepared.pre_allocated]
    if "schedule" in world.case:
        known = world.cluster.store(Reservation).get("", world.case["schedule"])
        assert known is not None
        try:
            answer["allocatable"] = set_available(
                known, node_name, world.cluster.clock.now()
            ).status.allocatable
        except DecodeError:
            answer["bind"] = "error"
        return answer
    binding = Binding(pod, node_name)
    answer["preBind"] = CODES[asyncio.run(framework.run_pre_bind(state, pod, binding)).code]
    if ANNOTATION_RESERVATION_ALLOCATED in binding.annotations:
        answer["annotation"] = binding.annotations[ANNOTATION_RESERVATION_ALLOCATED]
    return answer


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(_comparable(ours) == _comparable(expected))


def _comparable(answer: dict[str, Any]) -> dict[str, Any]:
    answer = {key: value for key, value in answer.items() if key != "tie"}
    if answer["preFilter"]["code"] == "Error":
        answer["preFilter"] = {"code": "Error"}
    reserve = dict(answer.get("reserve", {}))
    reserve.pop("err", None)
    if "allocatable" in reserve:
        reserve["allocatable"] = {name: from_wire(amount) for name, amount in reserve["allocatable"].items()}
    if "reserve" in answer:
        answer["reserve"] = reserve
    return answer
