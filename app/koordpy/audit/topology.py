"""What a NodeResourceTopology says: CPUs, those that are not handed out, and NUMA nodes."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Final

import msgspec

from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.lib import cpuset, go_json

from .amounts import Vector, vector

CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
POD_CPU_ALLOCS: Final = "node.koordinator.sh/pod-cpu-allocs"


MOST: Final = 2**63 - 1
"""The largest amount of a quantity."""


class _CPU(msgspec.Struct, gc=False):
    id: int
    node: int


class _Topology(msgspec.Struct, gc=False):
    detail: list[_CPU]


_TOPOLOGY: Final = msgspec.json.Decoder(_Topology)
_RATIOS: Final = msgspec.json.Decoder(dict[str, float])


class Reserved(msgspec.Struct, gc=False, frozen=True):
    """CPUs that are not handed out, who has them, and the UID of the pod that has them, if one has."""

    cpus: frozenset[int]
    by: str
    uid: str = ""


class Topology(msgspec.Struct, frozen=True):
    """The NUMA node of every CPU (empty if unknown), reserved CPUs, the resources of every NUMA node."""

    node_of: Mapping[int, int]
    reserved: tuple[Reserved, ...]
    zones: Mapping[int, Vector]
    is_amplified: bool


class TopologyReader:
    """Reads NodeResourceTopologies; equal CPU topologies are read once."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[int, int]] = {}

    def read(self, topology: NodeResourceTopology) -> Topology:
        """Return a topology; annotations that cannot be read count as absent, as in Koordinator."""
        annotations = topology.metadata.annotations
        text = annotations.get(CPU_TOPOLOGY, "")
        node_of = self._known.get(text)
        if node_of is None:
            node_of = self._known[text] = _node_of(text)
        reserved = tuple(found for found in _reserved(annotations) if found.cpus)
        zones = _zones(topology)
        taken: frozenset[int] = frozenset().union(*(found.cpus for found in reserved))
        for zone, amounts in zones.items():
            if amounts.get(extension.CPU):
                amounts[extension.CPU] -= 1000 * sum(1 for cpu in taken if node_of.get(cpu) == zone)
        is_amplified = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO in annotations
        return Topology(node_of, reserved, zones, is_amplified)


def ratios(annotations: Mapping[str, str]) -> dict[str, float]:
    """Return by how much a node's resources are amplified; nothing for an annotation that cannot be read."""
    text = annotations.get(extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO)
    if not text:
        return {}
    try:
        return _RATIOS.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def amplified(number: int, ratio: float) -> int:
    """Return an amount times a ratio, rounded up, at most `MOST`; a ratio of 1 or less does not count."""
    return number if ratio <= 1 else ceil(min(number * ratio, MOST))


def _node_of(text: str) -> Mapping[int, int]:
    if not text:
        return {}
    try:
        return {cpu.id: cpu.node for cpu in _TOPOLOGY.decode(text).detail}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def _zones(topology: NodeResourceTopology) -> dict[int, Vector]:
    zones: dict[int, Vector] = {}
    for zone in topology.zones:
        parts = zone.name.split("node-")
        if zone.type != "Node" or len(parts) != 2:
            continue
        try:
            number = int(parts[1])
        except ValueError:
            continue
        zones[number] = vector({item.name: item.allocatable for item in zone.resources})
    return zones


def _reserved(annotations: Mapping[str, str]) -> Iterator[Reserved]:
    kubelet = _document(annotations, extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY)
    yield Reserved(_cpus(kubelet.get("reservedcpus")), "the kubelet's reserved CPUs")
    node = _document(annotations, extension.ANNOTATION_NODE_RESERVATION)
    yield Reserved(_cpus(node.get("reservedcpus")), "the node's reservation")
    system = _document(annotations, extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE)
    if system.get("cpusetexclusive") is not False:
        yield Reserved(_cpus(system.get("cpuset")), "QoS class SYSTEM")
    for item in _items(annotations.get(POD_CPU_ALLOCS, "")):
        uid = item.get("uid")
        if item.get("managedbykubelet") is True and isinstance(uid, str) and uid:
            name = f"{item.get('namespace', '')}/{item.get('name', '')}"
            yield Reserved(_cpus(item.get("cpuset")), f"{name} (by the kubelet)", uid)


def _document(annotations: Mapping[str, str], key: str) -> Mapping[str, Any]:
    text = annotations.get(key)
    if not text:
        return {}
    try:
        found: Mapping[str, Any] = go_json.members(go_json.parse(text), "value")
    except ValueError:
        return {}
    return found


def _items(text: str) -> list[Mapping[str, Any]]:
    if not text:
        return []
    try:
        return [go_json.members(item, "value") for item in go_json.array(go_json.parse(text), "value") or []]
    except ValueError:
        return []


def _cpus(text: object) -> frozenset[int]:
    if not isinstance(text, str) or not text:
        return frozenset()
    try:
        return cpuset.parse(text)
    except ValueError:
        return frozenset()
