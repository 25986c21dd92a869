"""NodeNUMAResource and DeviceShare together on one node, from restore to PreBind; matches are given.

Both offer hints to the topology manager. The answers are those of Koordinator's own code.
"""

import asyncio
import json
from typing import Any, cast

from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_annotations import allocated, is_operating
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare
from koordpy_plugins.scheduling.deviceshare.scoring import ScoreError
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource

from .deviceshare import names_sorted, written
from .nodenuma_amplification import hint_of, same_part
from .nodenuma_reservation import Given

NUMA, DEVICES = "NodeNUMAResource", "DeviceShare"


class NodeClient:
    """Writes nodes: the locks for device plugins."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = cluster.store(Node)
        self.locks: list[str] = []

    async def get(self, kind: type[Node], namespace: str, name: str) -> Node:
        found = self._nodes.by_key(name)
        assert found is not None
        return found

    async def patch(self, kind: type[Node], namespace: str, name: str, body: dict[str, Any]) -> None:
        written = body["metadata"]["annotations"]
        self.locks += [f"{key} {value.partition(',')[2]}" for key, value in written.items()]


class World:
    """The cluster of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case, self.cluster, self.given = case, Cluster(), Given()
        self.client = NodeClient(self.cluster)
        self.handle = Handle(self.cluster, client=cast(Client, self.client))
        self._plugins()
        self.handle.publish_reservations(self.given)
        for gate in case.get("gates") or ():
            self.handle.gates.set({gate: True})
        self.cluster.store(Node).apply(decode(Node, case["node"]))
        if "nrt" in case:
            self.cluster.store(NodeResourceTopology).apply(decode(NodeResourceTopology, case["nrt"]))
        if "device" in case:
            self.cluster.store(Device).apply(decode(Device, case["device"]))
        if "templates" in case:
            config = self.devices.args.gpu_shared_resource_templates_config
            meta = {"namespace": config.config_map_namespace, "name": config.config_map_name}
            document = {"metadata": meta, "data": {"data.yaml": json.dumps(case["templates"])}}
            self.cluster.store(ConfigMap).apply(decode(ConfigMap, document))
        self._reserved()

    def _plugins(self) -> None:
        args = {NUMA: self.case.get("numaArgs") or {}, DEVICES: self.case.get("deviceArgs") or {}}
        profile = {
            "plugins": {
                "multiPoint": {"enabled": [{"name": name} for name in args], "disabled": [{"name": "*"}]}
            },
            "pluginConfig": [{"name": name, "args": each} for name, each in args.items()],
        }
        config = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
        classes = {NUMA: NodeNUMAResource, DEVICES: DeviceShare}
        profiles = build(config, lambda _: self.handle, place=Place.EXTENDER, classes=classes)
        plugins = profiles.frameworks["default-scheduler"].plugins
        self.numa = next(each for each in plugins if isinstance(each, NodeNUMAResource))
        self.devices = next(each for each in plugins if isinstance(each, DeviceShare))

    def _reserved(self) -> None:
        reservations = [decode(Reservation, each) for each in self.case.get("reservations") or ()]
        for reservation in reservations:
            self.cluster.store(Reservation).apply(reservation)
        decoded = [decode(Pod, each) for each in self.case.get("pods") or ()]
        self.pods = {pod.metadata.name: pod for pod in decoded}
        for pod in decoded:
            self.cluster.store(Pod).apply(pod)
        self.infos = {each.metadata.name: ReservationInfo(each) for each in reservations}
        self.infos |= {
            pod.metadata.name: ReservationInfo(pod) for pod in decoded if is_operating(pod.metadata)
        }
        by_uid = {info.uid: info for info in self.infos.values()}
        for pod in decoded:
            used = allocated(pod.metadata.annotations)
            info = None if used is None else by_uid.get(used.uid)
            if info is not None and pod.status.phase == "Running":
                info.assign(AssignedPod.of(pod))
                self.given.owners[pod.metadata.uid] = info

    def named(self, part: str) -> list[ReservationInfo]:
        return [self.infos[name] for name in self.case.get(part) or ()]

    @property
    def node(self) -> NodeInfo:
        return NodeInfo(self.cluster.nodes.all(), 0)


def run(case: dict[str, Any], tag: str | None) -> dict[str, Any]:
    """Run the points in kube-scheduler's order, each of NodeNUMAResource before DeviceShare's."""
    world, state = World(case), CycleState()
    out: dict[str, Any] = {}
    if "hint" in case:
        state.write(SCHEDULING_HINT, SchedulingHintState(extensions={key: {} for key in case["hint"]}))
    scheduled = world.infos[case["schedule"]] if case.get("schedule") else None
    pod = decode(Pod, case["pod"]) if scheduled is None else scheduled.pod
    status = _restore(world, state, pod, scheduled)
    if not status.is_success:
        return {"preRestore": written(status)}
    plugins = []
    for name, plugin in (("numa", world.numa), ("device", world.devices)):
        _, status = plugin.pre_filter(state, pod, world.node.nodes)
        out[f"{name}PreFilter"] = written(status)
        if status.is_success:
            plugins.append((name, plugin))
        elif not status.is_skip:
            return out
    for part, point in (("removed", "remove_pod"), ("readded", "add_pod")):
        for each in case.get(part) or ():
            for _, plugin in plugins:
                getattr(plugin, point)(state, pod, world.pods[each], world.node)
    for name, plugin in plugins:
        status = plugin.filter(state, pod, world.node)
        out[f"{name}Filter"] = written(status)
        if name == "numa":
            out["filterHint"] = hint_of(state)
        if not status.is_success:
            return out
    _nominate(world, state, pod, scheduled, out)
    for name, plugin in (("numa", world.numa), ("device", world.devices)):
        out[f"{name}Score"] = _score(plugin, state, pod, world.node)
    _commit(world, state, pod, scheduled, out)
    return out


def _restore(world: World, state: CycleState, pod: Pod, scheduled: ReservationInfo | None) -> Status:
    both = (world.numa, world.devices)
    status = Status()
    for plugin in both:
        status = plugin.pre_restore_reservation(state, pod)
        if not status.is_success:
            return status
    for plugin in both:
        plugin.restore_reservation(state, pod, world.named("matched"), world.named("unmatched"), world.node)
    taken = [world.pods[name] for name in world.case.get("preAllocatable") or ()]
    if scheduled is not None and taken:
        for plugin in both:
            plugin.pre_restore_reservation_pre_allocation(state, scheduled)
            plugin.restore_reservation_pre_allocation(state, scheduled, taken, world.node)
    return status


def _score(plugin: Any, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
    try:
        return plugin.score(state, pod, node)
    except ScoreError as error:
        return written(error.status)


def _nominate(
    world: World, state: CycleState, pod: Pod, scheduled: ReservationInfo | None, out: dict[str, Any]
) -> None:
    both, given, case = (world.numa, world.devices), world.given, world.case
    if scheduled is not None:
        asked = [(name, world.pods[name], scheduled) for name in case.get("preAllocatable") or ()]
    else:
        asked = [(info.name, pod, info) for info in world.named("matched")]
    if asked:
        out["filterNominate"] = {
            name: [written(plugin.filter_nominate_reservation(state, each, info, "n")) for plugin in both]
            for name, each, info in asked
        }
    if scheduled is None and asked:
        scores: dict[str, Any] = {}
        for info in world.named("matched"):
            try:
                scores[info.name] = world.devices.score_reservation(state, pod, info, "n")
            except ScoreError as error:
                scores[info.name] = written(error.status)
        out["reservationScore"] = scores
    nominated = case.get("nominated")
    if nominated and scheduled is not None:
        given.pods = [world.pods[nominated]]
    elif nominated:
        given.reservation = world.infos[nominated]


def _commit(
    world: World, state: CycleState, pod: Pod, scheduled: ReservationInfo | None, out: dict[str, Any]
) -> None:
    state.write(SCHEDULING_PHASE, "Reserve")
    status = world.numa.reserve(state, pod, "n")
    out["numaReserve"], out["reserveHint"] = written(status), hint_of(state)
    if not status.is_success:
        return
    status = world.devices.reserve(state, pod, "n")
    out["deviceReserve"] = written(status)
    if not status.is_success:
        return
    binding = Binding(pod, "n")
    for name, plugin in (("numa", world.numa), ("device", world.devices)):
        if scheduled is None:
            status = asyncio.run(plugin.pre_bind(state, pod, "n", binding))
        else:
            status = asyncio.run(plugin.pre_bind_reservation(state, scheduled, "n", binding))
        if not status.is_success:
            out[f"{name}PreBind"] = written(status)
            return
    before = (pod.metadata if scheduled is None else scheduled.meta).annotations
    changed = {name: text for name, text in binding.annotations.items() if before.get(name) != text}
    out["annotations"] = changed
    if binding.labels:
        out["labels"] = dict(binding.labels)
    if world.client.locks:
        out["locks"] = world.client.locks


_DEVICES = "scheduling.koordinator.sh/device-allocated"
_TIMES = ("scheduling.koordinator.sh/bind-timestamp", "predicate-time")


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    """Whether the answers agree; of times only that they are written."""
    parts = {*ours, *expected}
    return all(_same(ours.get(part), expected.get(part)) for part in parts)


def _same(ours: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and "code" in expected:
        if any("JSON input" in reason or "invalid character" in reason for reason in expected["reasons"]):
            return bool(isinstance(ours, dict) and ours.get("code") == expected["code"])
        return same_part(ours, {**expected, "reasons": [*map(names_sorted, expected["reasons"])]})
    return _plain(ours) == _plain(expected)


def _plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found = {name: "time" if name in _TIMES else each for name, each in value.items()}
    text = found.get("scheduling.koordinator.sh/device-allocated")
    return (
        found if text is None else {**found, "scheduling.koordinator.sh/device-allocated": json.loads(text)}
    )
