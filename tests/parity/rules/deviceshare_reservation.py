"""DeviceShare with Reservations: which match and which one is nominated is given, the rest is asked."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_annotations import allocated
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.api.resources import pod_requests
from koordpy.api.scheme import decode
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.testing.reservations import GivenReservations
from koordpy_plugins.scheduling.deviceshare.amounts import NodeAmounts
from koordpy_plugins.scheduling.deviceshare.reservations.restored import RESTORED, Reusable, restored_on
from koordpy_plugins.scheduling.deviceshare.scoring import ScoreError

from . import deviceshare
from .deviceshare import NODE, World, report, written


class Given(GivenReservations):
    """The reservations of a vector."""

    def __init__(self) -> None:
        self.infos: dict[str, ReservationInfo] = {}
        self.owner_of: dict[str, ReservationInfo] = {}
        self.chosen: ReservationInfo | None = None
        self.chosen_pod: Pod | None = None

    def get(self, uid: str) -> ReservationInfo | None:
        return next((info for info in self.infos.values() if info.uid == uid), None)

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        return self.owner_of.get(pod.metadata.uid)

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        return None if state is None else self.chosen

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        return () if self.chosen_pod is None else (self.chosen_pod,)


class ReservedWorld(World):
    """The cluster with its reservations."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(case)
        for gate in case.get("gates", ()):
            self.handle.gates.set({gate: True})
        self.given = Given()
        self.handle.publish_reservations(self.given)
        self.reservations = [decode(Reservation, each) for each in case.get("reservations", ())]
        for reservation in self.reservations:
            self.given.infos[reservation.metadata.name] = ReservationInfo(reservation)
            if reservation.is_available and reservation.node_name == NODE:
                self.cluster.store(Reservation).apply(reservation)
        self.add_pods()
        self._assign()

    def _assign(self) -> None:
        pods = [decode(Pod, each) for each in self.case.get("pods", ())]
        for pod in pods:
            if pod.metadata.labels.get(extension.LABEL_POD_OPERATING_MODE) == "Reservation":
                self.given.infos[pod.metadata.name] = ReservationInfo(pod)
        for pod in pods:
            used = allocated(pod.metadata.annotations)
            info = None if used is None else self.given.get(used.uid)
            if info is not None:
                info.assign(AssignedPod.of(pod))
                self.given.owner_of[pod.metadata.uid] = info

    def infos(self, names: Iterable[str]) -> list[ReservationInfo]:
        return [self.given.infos[name] for name in names]


def run(case: dict[str, Any], tag: str | None) -> dict[str, Any]:
    """Run the points in Koordinator's order."""
    world = ReservedWorld(case)
    plugin, state, given = world.plugin, world.state, world.given
    out: dict[str, Any] = {}
    scheduled = given.infos[case["schedule"]] if "schedule" in case else None
    if scheduled is None:
        pod = decode(Pod, case["pod"])
    else:
        assert scheduled.reservation is not None
        pod = new_reserve_pod(scheduled.reservation)
    status = plugin.pre_restore_reservation(state, pod)
    if not status.is_success:
        return {"preRestore": written(status)}
    matched, unmatched = world.infos(case.get("matched", ())), world.infos(case.get("unmatched", ()))
    restoring = state.read(RESTORED)
    if restoring is not None and not restoring.skip:
        plugin.restore_reservation(state, pod, matched, unmatched, world.node)
    candidates = [world.pod_of(name) for name in case.get("preAllocatable", ())]
    if scheduled is not None and candidates:
        plugin.pre_restore_reservation_pre_allocation(state, scheduled)
        plugin.restore_reservation_pre_allocation(state, scheduled, candidates, world.node)
    _, status = plugin.pre_filter(state, pod, world.cluster.nodes.all())
    out["preFilter"] = written(status)
    if not status.is_success:
        return out
    restored = restored_on(state, NODE)
    out["restore"] = {
        "matched": [_reusable(each) for each in restored.matched],
        "unmatched": [_reusable(each) for each in restored.unmatched],
        "matchedAllocatable": _amounts(restored.matched_allocatable),
        "matchedAllocated": _amounts(restored.matched_allocated),
        "unmatchedUsed": _amounts(restored.unmatched_used),
    }
    for name in case.get("removed", ()):
        plugin.remove_pod(state, pod, world.pod_of(name), world.node)
    for name in case.get("readded", ()):
        plugin.add_pod(state, pod, world.pod_of(name), world.node)
    if "nominated" in case:
        given.chosen = given.infos.get(case["nominated"])
        if case["nominated"] in case.get("preAllocatable", ()):
            given.chosen, given.chosen_pod = None, world.pod_of(case["nominated"])
    return _from_hints(world, pod, scheduled, matched, candidates, out)


def _from_hints(
    world: ReservedWorld,
    pod: Pod,
    scheduled: ReservationInfo | None,
    matched: Sequence[ReservationInfo],
    candidates: Sequence[Pod],
    out: dict[str, Any],
) -> dict[str, Any]:
    plugin, state, case = world.plugin, world.state, world.case
    hints = world.hints(pod)
    if hints is not None:
        out["hints"] = hints
    if case.get("numa"):
        out["numaAllocate"] = world.numa_allocate(pod)
    passed = plugin.filter(state, pod, world.node)
    out["filter"] = written(passed)
    _nominations(world, pod, scheduled, matched, candidates, out)
    if not passed.is_success:
        return out
    out["score"] = world.score(pod)
    if scheduled is not None and "ResizePod" in case.get("gates", ()):
        pod, status = plugin.resize_pod(state, pod, NODE)
        out["resize"] = written(status)
        if not status.is_success:
            return out
        out["resizedRequests"] = {name: str(amount) for name, amount in pod_requests(pod).items()}
    if not world.reserve(pod, out):
        return out
    if scheduled is None:
        world.pre_bind(pod, out)
        return out
    binding = Binding(pod, NODE)
    status = asyncio.run(plugin.pre_bind_reservation(state, scheduled, NODE, binding))
    report(binding, status, out)
    text = binding.annotations.get(extension.ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE)
    if text is not None:
        out["resizeAllocatable"] = json.loads(text)
    return out


def _nominations(
    world: ReservedWorld,
    pod: Pod,
    scheduled: ReservationInfo | None,
    matched: Sequence[ReservationInfo],
    candidates: Sequence[Pod],
    out: dict[str, Any],
) -> None:
    """Ask about every reservation that the pod may use, or every pod that the Reservation may take over."""
    plugin, state = world.plugin, world.state
    if scheduled is not None:
        if candidates:
            out["filterNominate"] = {
                each.metadata.name: written(plugin.filter_nominate_reservation(state, each, scheduled, NODE))
                for each in candidates
            }
        return
    if not matched:
        return
    out["filterNominate"] = {
        info.name: written(plugin.filter_nominate_reservation(state, pod, info, NODE)) for info in matched
    }
    scores: dict[str, Any] = {}
    for info in matched:
        try:
            scores[info.name] = plugin.score_reservation(state, pod, info, NODE)
        except ScoreError as error:
            scores[info.name] = written(error.status)
    out["reservationScore"] = scores
    if all(isinstance(score, int) for score in scores.values()):
        raw = np.array(list(scores.values()), np.int64)
        found = plugin.normalize_reservations_of_nodes(state, pod, raw, np.zeros(1, np.int64))
        out["reservationNormalized"] = dict(zip(scores, map(int, found), strict=True))


def _reusable(item: Reusable) -> dict[str, Any]:
    name = item.reservation.name if item.taken_over is None else item.taken_over.metadata.name
    return {
        "name": name,
        "allocatable": _amounts(item.allocatable),
        "allocated": _amounts(item.allocated),
        "remained": _amounts(item.remained),
    }


def _amounts(amounts: NodeAmounts) -> Mapping[str, Any]:
    """Whole numbers, without zeros and what is empty then."""
    found = {
        type_: {
            str(minor): {name: amount.value() for name, amount in held.items() if not amount.is_zero}
            for minor, held in minors.items()
        }
        for type_, minors in amounts.items()
    }
    kept = {type_: {minor: held for minor, held in minors.items() if held} for type_, minors in found.items()}
    return {type_: minors for type_, minors in kept.items() if minors}


def same(ours: Any, expected: Any, case: Any) -> bool:
    """Whether the answers agree."""
    return deviceshare.same(ours, expected, case)


def group(tag: str, expected: Any) -> str:
    """Spread a sample over what a case is about, and over how far the pod comes."""
    return f"{tag.partition(',')[2]} {' '.join(sorted(expected.keys() & {'reserve', 'annotation'}))}"
