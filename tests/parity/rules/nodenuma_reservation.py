"""NodeNUMAResource with Reservations on one node, from restore to PreBind; matches are given."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import Reservation
from koordpy.api.resource_names import CPU
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib import cpuset
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.testing.reservations import GivenReservations
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource
from koordpy_plugins.scheduling.nodenumaresource.reservations.reusable import Reusable, reusable_on

from .nodenuma_amplification import hint_of, plugin_of, same, status_of

__all__ = ["run", "same"]


class Given(GivenReservations):
    """The reservations that pods use, and what is nominated, as the case says."""

    def __init__(self) -> None:
        self.owners: dict[str, ReservationInfo] = {}
        self.reservation: ReservationInfo | None = None
        self.pods: Sequence[Pod] = ()

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        return self.owners.get(pod.metadata.uid)

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        return None if state is None else self.reservation

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        return self.pods


class World:
    """The cluster of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.cluster, self.given = case, Cluster(), Given()
        handle = Handle(self.cluster)
        self.plugin: NodeNUMAResource = plugin_of(handle, case.get("args"))
        handle.publish_reservations(self.given)
        self.cluster.store(Node).apply(decode(Node, case["node"]))
        if case.get("nrt") is not None:
            self.cluster.store(NodeResourceTopology).apply(decode(NodeResourceTopology, case["nrt"]))
        reservations = [decode(Reservation, each) for each in case.get("reservations") or ()]
        for reservation in reservations:
            self.cluster.store(Reservation).apply(reservation)
        self.pods = {
            each.metadata.name: each for each in (decode(Pod, each) for each in case.get("pods") or ())
        }
        for pod in self.pods.values():
            self.cluster.store(Pod).apply(pod)
        self.infos = {each.metadata.name: ReservationInfo(each) for each in reservations}
        for name, pod in self.pods.items():
            if annotations.is_operating(pod.metadata):
                self.infos[name] = ReservationInfo(pod)
        self._assign()

    def _assign(self) -> None:
        by_uid = {info.uid: info for info in self.infos.values()}
        for pod in self.pods.values():
            allocated = annotations.allocated(pod.metadata.annotations)
            info = None if allocated is None else by_uid.get(allocated.uid)
            if info is not None and pod.status.phase == "Running":
                info.assign(AssignedPod.of(pod))
                self.given.owners[pod.metadata.uid] = info

    def named(self, part: str) -> list[ReservationInfo]:
        return [self.infos[name] for name in self.case.get(part) or ()]


def run(case: dict[str, Any], tag: str | None) -> object:
    world, state = World(case), CycleState()
    answer: dict[str, Any] = {}
    plugin, node = world.plugin, NodeInfo(world.cluster.nodes.all(), 0)
    scheduled = world.infos[case["schedule"]] if "schedule" in case else None
    pod = scheduled.pod if scheduled is not None else decode(Pod, case["pod"])
    _restore(world, state, pod, scheduled, node, answer)
    _, status = plugin.pre_filter(state, pod, node.nodes)
    answer["preFilter"] = status_of(status)
    if not status.is_success:
        return {"preFilter": answer["preFilter"]}
    for name in case.get("removed") or ():
        plugin.remove_pod(state, pod, world.pods[name], node)
    for name in case.get("readded") or ():
        plugin.add_pod(state, pod, world.pods[name], node)
    status = plugin.filter(state, pod, node)
    answer["filter"], answer["filterHint"] = status_of(status), hint_of(state)
    if not status.is_success:
        return answer
    asked = _nominated(world, state, pod, scheduled)
    if asked:
        answer["filterNominate"] = asked
    nominated = case.get("nominated")
    if nominated is not None and scheduled is not None:
        world.given.pods = [world.pods[nominated]]
    elif nominated is not None:
        world.given.reservation = world.infos[nominated]
    answer["score"] = plugin.score(state, pod, node)
    _commit(plugin, state, pod, scheduled, answer)
    return answer


def _restore(
    world: World,
    state: CycleState,
    pod: Pod,
    scheduled: ReservationInfo | None,
    node: NodeInfo,
    answer: dict[str, Any],
) -> None:
    plugin, case = world.plugin, world.case
    plugin.pre_restore_reservation(state, pod)
    plugin.restore_reservation(state, pod, world.named("matched"), world.named("unmatched"), node)
    if case.get("preAllocatable") and scheduled is not None:
        pods = [world.pods[name] for name in case["preAllocatable"]]
        plugin.restore_reservation_pre_allocation(state, scheduled, pods, node)
    restored = reusable_on(state, "n")
    names = {info.uid: name for name, info in world.infos.items()}
    names |= {each.metadata.uid: name for name, each in world.pods.items()}
    answer["restore"] = {
        "matched": {names[uid]: _item(item) for uid, item in restored.matched.items()},
        "unmatched": {names[uid]: _item(item) for uid, item in restored.unmatched.items()},
        "unmatchedUsed": _amounts(restored.unmatched_used),
        "matchedAllocatable": _amounts(restored.matched_allocatable),
        "matchedAllocated": _amounts(restored.matched_allocated),
        "matchedRemainCPUs": cpuset.render(restored.matched_remained_cpus),
        "matchedAllocatedCPUs": cpuset.render(restored.matched_cpus),
    }


def _item(item: Reusable) -> dict[str, Any]:
    return {
        "allocatableCPUs": cpuset.render(item.allocatable_cpus),
        "remainedCPUs": cpuset.render(item.remained_cpus),
        "allocatable": _amounts(item.allocatable),
        "allocated": _amounts(item.allocated),
        "remained": _amounts(item.remained),
    }


def _amounts(by_node: Mapping[int, Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    written = {
        str(node): {
            name: amount.milli_value() if name == CPU else amount.value()
            for name, amount in amounts.items()
            if not amount.is_zero
        }
        for node, amounts in by_node.items()
    }
    return {node: amounts for node, amounts in written.items() if amounts}


def _nominated(
    world: World, state: CycleState, pod: Pod, scheduled: ReservationInfo | None
) -> dict[str, Any]:
    plugin, case = world.plugin, world.case
    asked: Iterable[tuple[str, Pod, ReservationInfo]]
    if scheduled is not None:
        asked = [(name, world.pods[name], scheduled) for name in case.get("preAllocatable") or ()]
    else:
        asked = [(info.name, pod, info) for info in world.named("matched")]
    return {
        name: status_of(plugin.filter_nominate_reservation(state, each, info, "n"))
        for name, each, info in asked
    }


def _commit(
    plugin: NodeNUMAResource,
    state: CycleState,
    pod: Pod,
    scheduled: ReservationInfo | None,
    answer: dict[str, Any],
) -> None:
    status = plugin.reserve(state, pod, "n")
    answer["reserve"], answer["reserveHint"] = status_of(status), hint_of(state)
    if not status.is_success:
        return
    binding = Binding(pod, "n")
    if scheduled is None:
        status = asyncio.run(plugin.pre_bind(state, pod, "n", binding))
    else:
        status = asyncio.run(plugin.pre_bind_reservation(state, scheduled, "n", binding))
    if status.is_success:
        answer["annotations"] = binding.annotations
    else:
        answer["preBind"] = status_of(status)
