"""One pod on one node with the plugin DeviceShare alone, point by point."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from koordpy.api import extension
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.device import Device
from koordpy.api.quantity import from_wire
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Binding, NUMATopologyHint
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE, init_store
from koordpy_plugins.scheduling.deviceshare.args import DeviceShareArgs
from koordpy_plugins.scheduling.deviceshare.attempt.placing import NO_ISOLATION_PROVIDER
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare
from koordpy_plugins.scheduling.deviceshare.scoring import ScoreError

NODE = "n"


def written(status: Status) -> dict[str, Any]:
    """A status as the vectors have it."""
    code = int(status.code)
    if NO_ISOLATION_PROVIDER in status.reasons:
        # Koordinator's Filter answers with an Error, which would end the attempt for all nodes.
        code = int(Code.ERROR)
    return {"code": code, "reasons": sorted(map(names_sorted, status.reasons))}


def names_sorted(reason: str) -> str:
    """Sort the names of resources in a reason, which Go gives in the order of a map."""
    head, found, names = reason.partition("invalid resource device requests: [")
    return f"{head}{found}{' '.join(sorted(names.removesuffix(']').split()))}]" if found else reason


class World:
    """A cluster with one node, its Device and its pods."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.cluster = Cluster()
        self.handle = Handle(self.cluster)
        self.args = DeviceShareArgs.model_validate(case.get("args") or {})
        self.plugin = DeviceShare(self.args, self.handle)
        self.cluster.store(Node).apply(decode(Node, case["node"]))
        self.device = decode(Device, case["device"]) if case.get("device") else None
        if self.device is not None:
            self.cluster.store(Device).apply(self.device)
        config = self.args.gpu_shared_resource_templates_config
        if "templates" in case:
            meta = {"namespace": config.config_map_namespace, "name": config.config_map_name}
            document = {"metadata": meta, "data": {"data.yaml": json.dumps(case["templates"])}}
            self.cluster.store(ConfigMap).apply(decode(ConfigMap, document))
        self.state = CycleState()
        init_store(self.state)

    def add_pods(self) -> None:
        """Let the ledger see the existing pods, and the end of the Device."""
        for document in self.case.get("pods", ()):
            self.cluster.store(Pod).apply(decode(Pod, document))
        if self.device is not None and self.case.get("deviceDeleted"):
            self.cluster.store(Device).discard(self.device.metadata.key)

    @property
    def node(self) -> NodeInfo:
        return NodeInfo(self.cluster.nodes.select([NODE])[0], 0)

    def pod_of(self, name: str) -> Pod:
        return next(pod for pod in self.cluster.store(Pod) if pod.metadata.name == name)

    def hints(self, pod: Pod) -> Any:
        """The hints by type; None without any preference."""
        if self.args.disable_device_numa_topology_alignment or self.plugin.ledger.node(NODE) is None:
            return None
        found, status = self.plugin.pod_topology_hints(self.state, pod, self.node)
        if not status.is_success:
            return written(status)
        return {
            type_: [
                [list(bitmask.bits(hint.affinity or 0)), hint.preferred, hint.score] for hint in hints or ()
            ]
            for type_, hints in found.items()
        }

    def numa_allocate(self, pod: Pod) -> dict[str, Any]:
        """Check the chosen NUMA nodes, and store them whatever comes of it."""
        affinity = NUMATopologyHint(bitmask.of(self.case["numa"]))
        status = self.plugin.allocate(self.state, affinity, pod, self.node)
        store = self.state.read(AFFINITY_STORE)
        assert store is not None
        store[NODE] = affinity
        return written(status)

    def score(self, pod: Pod) -> Any:
        try:
            return self.plugin.score(self.state, pod, self.node)
        except ScoreError as error:
            return written(error.status)

    def reserve(self, pod: Pod, out: dict[str, Any]) -> bool:
        """Reserve; True if that went well."""
        status = self.plugin.reserve(self.state, pod, NODE)
        out["reserve"] = written(status)
        return status.is_success

    def pre_bind(self, pod: Pod, out: dict[str, Any]) -> Binding:
        binding = Binding(pod, NODE)
        status = asyncio.run(self.plugin.pre_bind(self.state, pod, NODE, binding))
        report(binding, status, out)
        return binding


def report(binding: Binding, status: Status, out: dict[str, Any]) -> None:
    """Add what PreBind wrote."""
    if not status.is_success:
        out["preBind"] = written(status)
        return
    text = binding.annotations.get(extension.ANNOTATION_DEVICE_ALLOCATED)
    out["annotation"] = None if text is None else json.loads(text)


def run(case: dict[str, Any], tag: str | None) -> dict[str, Any]:
    """Run the points in kube-scheduler's order."""
    world = World(case)
    world.add_pods()
    plugin, state = world.plugin, world.state
    out: dict[str, Any] = {}
    if case.get("summary"):
        summaries: Mapping[str, Any] = plugin.endpoints()["nodeDeviceSummaries"]()  # type: ignore[assignment]
        out["summary"] = summaries.get(NODE)
    pod = decode(Pod, case["pod"])
    if case.get("hint"):
        state.write(SCHEDULING_HINT, SchedulingHintState(extensions={plugin.name: {}}))
    _, status = plugin.pre_filter(state, pod, world.cluster.nodes.all())
    out["preFilter"] = written(status)
    if not status.is_success:
        return out
    for name in case.get("removed", ()):
        plugin.remove_pod(state, pod, world.pod_of(name), world.node)
    for name in case.get("readded", ()):
        plugin.add_pod(state, pod, world.pod_of(name), world.node)
    hints = world.hints(pod)
    if hints is not None:
        out["hints"] = hints
    if case.get("numa"):
        out["numaAllocate"] = world.numa_allocate(pod)
    status = plugin.filter(state, pod, world.node)
    out["filter"] = written(status)
    if not status.is_success:
        return out
    out["score"] = world.score(pod)
    if world.reserve(pod, out):
        world.pre_bind(pod, out)
    return out


_LOOSE = (
    "unexpected end of JSON input",
    "invalid character ",
    "json:",
    " annotation, err:",
    " of DeviceHint, deviceType",
)


def same(ours: Any, expected: Any, case: Any) -> bool:
    """Whether the answers agree; where Go's depends on the order of a map, one of several is right."""
    if ours.keys() != expected.keys():
        return False
    return all(_same_field(ours[name], value) for name, value in expected.items())


def _same_field(ours: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and "anyOf" in expected:
        return any(_same_field(ours, each) for each in expected["anyOf"])
    if isinstance(expected, dict) and "code" in expected:
        if any(part in reason for reason in expected["reasons"] for part in _LOOSE):
            return bool(ours["code"] == expected["code"])
        return bool(ours == expected)
    return _plain(ours) == _plain(expected)


def _plain(value: Any) -> Any:
    """Compare quantities by value."""
    if isinstance(value, dict):
        if "allocateSet" in value:
            # A type of which nothing is allocated any more leaves its name in Koordinator. Here what the REST
            # API shows does not depend on the past.
            shown = {type_: pods for type_, pods in value["allocateSet"].items() if pods}
            return {**value, "allocateSet": shown}
        return {
            key: {name: from_wire(amount).nano_value() for name, amount in each.items()}
            if key == "resources"
            else _plain(each)
            for key, each in value.items()
        }
    return [_plain(each) for each in value] if isinstance(value, list) else value


def group(tag: str, expected: Any) -> str:
    """Spread a sample over kinds of requests, and over how far the pod comes."""
    return (
        f"{tag.split('+')[0].split(',')[0]} {' '.join(sorted(expected.keys() & {'reserve', 'annotation'}))}"
    )
