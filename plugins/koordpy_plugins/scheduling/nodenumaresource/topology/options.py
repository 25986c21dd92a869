"""What a NodeResourceTopology says about a node, in the form in which it is used.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/topology_options.go`.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from koordpy.api import amplification, extension
from koordpy.api.koordinator import NodeResourceTopology, Zone
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.resource_list import Quantities
from koordpy.lib import cpuset, go_json, int64
from koordpy.scheduling.toolkit.topology_manager import bitmask

from .cpu_topology import NO_TOPOLOGY, CPUTopology, of_annotations

log = logging.getLogger(__name__)

T = TypeVar("T")

_STATIC: Final = "static"
_FULL_PCPUS_ONLY: Final = "full-pcpus-only"
_ZONE: Final = "node-"
_POLICIES: Final = {
    "BestEffort": "BestEffort",
    "Restricted": "Restricted",
    "SingleNUMANodePodLevel": "SingleNUMANode",
}
MOST_RESOURCES: Final = 128
"""A zone with more resources than this is left out."""

_NO_CPUS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True)
class KubeletPolicy:
    """The policy of kubelet's CPU manager, its options, and the CPUs that it keeps from pods."""

    policy: str = ""
    options: Mapping[str, str] | None = None
    reserved_cpus: str = ""

    @property
    def is_full_pcpus_only(self) -> bool:
        """Whether kubelet itself gives whole cores only."""
        return self.policy == _STATIC and (self.options or {}).get(_FULL_PCPUS_ONLY) == "true"


@dataclass(frozen=True)
class TopologyOptions:
    """The CPUs of a node and the resources of its NUMA nodes.

    `cpu_topology` is None for a node without a NodeResourceTopology, and may be invalid for one with it.
    `numa_resources` is ascending, without the reserved CPUs (their cpu may be negative). `policy` is the NUMA
    topology policy, empty for none. `amplification_ratios` is None if the node's annotation decides.
    """

    cpu_topology: CPUTopology | None = None
    reserved_cpus: frozenset[int] = _NO_CPUS
    max_ref_count: int = 1
    policy: str = ""
    numa_resources: Mapping[int, Quantities] = field(default_factory=dict)
    amplification_ratios: amplification.Ratios | None = None
    kubelet_policy: KubeletPolicy | None = None

    @property
    def is_valid(self) -> bool:
        """Whether there is a CPU topology with CPUs."""
        return self.cpu_topology is not None and self.cpu_topology.is_valid

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """The NUMA nodes that have resources, ascending."""
        return tuple(self.numa_resources)


NO_OPTIONS: Final = TopologyOptions()
"""The options of a node without a NodeResourceTopology."""


def of(nrt: NodeResourceTopology, report: Callable[[str, ValueError], None] | None = None) -> TopologyOptions:
    """Return what a NodeResourceTopology says.

    Parts that cannot be read are left out, each reported as the node's name and the error, by default to the
    log.
    """
    reader = _Reader(nrt, report or _log)
    annotations = nrt.metadata.annotations
    topology = reader.read(of_annotations, annotations) or NO_TOPOLOGY
    kubelet = reader.read(_kubelet_policy, annotations)
    reserved = reader.read(_pod_cpus, annotations) or _NO_CPUS
    if kubelet is not None:
        reserved |= reader.read(cpuset.parse_koordinator, kubelet.reserved_cpus) or _NO_CPUS
    reserved |= reader.read(_node_reservation, annotations) or _NO_CPUS
    reserved |= reader.read(_system_qos, annotations) or _NO_CPUS
    zones = reader.zones(nrt.zones)
    return TopologyOptions(
        cpu_topology=topology,
        reserved_cpus=reserved,
        policy=next((_POLICIES[name] for name in nrt.topology_policies if name in _POLICIES), ""),
        numa_resources={
            node: _without(zones[node], len(topology.cpus_of_node(node) & reserved)) for node in sorted(zones)
        },
        amplification_ratios=reader.read(amplification.node_ratios, annotations),
        kubelet_policy=kubelet,
    )


def amplified(options: TopologyOptions, node_annotations: Mapping[str, str]) -> TopologyOptions:
    """Return the options with NUMA resources amplified by the ratios of a node's annotation.

    Those that have ratios already are returned as they are. Raises ValueError. Source: Koordinator,
    `pkg/scheduler/plugins/nodenumaresource/util.go` (`amplifyNUMANodeResources`).
    """
    if options.amplification_ratios is not None:
        return options
    ratios = amplification.node_ratios(node_annotations)
    if ratios is None:
        return options
    return replace(
        options,
        amplification_ratios=ratios,
        numa_resources={
            node: amplification.amplify_list(amounts, ratios)
            for node, amounts in options.numa_resources.items()
        },
    )


class _Reader:
    """Reads the parts of one object, and reports those that cannot be read."""

    def __init__(self, nrt: NodeResourceTopology, report: Callable[[str, ValueError], None]) -> None:
        self._name, self._report = nrt.metadata.name, report

    def read(self, part: Callable[[Any], T], source: Any) -> T | None:
        """Return a part, None if it cannot be read."""
        try:
            return part(source)
        except ValueError as error:
            self._report(self._name, error)
            return None

    def zones(self, zones: list[Zone]) -> dict[int, Quantities]:
        """Return the resources of the zones that are NUMA nodes; of several of one node those of the last."""
        found: dict[int, Quantities] = {}
        for zone in zones:
            parts = zone.name.split(_ZONE)
            if zone.type != "Node" or len(parts) != 2:
                continue
            node = self.read(_zone_number, parts[1])
            amounts = self.read(_amounts, zone)
            if node is not None and amounts is not None:
                found[node] = amounts
        return found


def _log(name: str, error: ValueError) -> None:
    log.warning("NodeResourceTopology %s: %s", name, error)


def _zone_number(text: str) -> int:
    number = int64.parse(text)
    if number is None or not 0 <= number < bitmask.WIDTH:
        raise ValueError(f"zone {_ZONE}{text[:80]}: expected a number from 0 to {bitmask.WIDTH - 1}")
    return number


def _amounts(zone: Zone) -> Quantities:
    if len(zone.resources) > MOST_RESOURCES:
        count = len(zone.resources)
        raise ValueError(f"zone {zone.name}: {count} resources: expected at most {MOST_RESOURCES}")
    return {each.name: from_wire(each.allocatable) for each in zone.resources}


def _without(amounts: Quantities, cpus: int) -> Quantities:
    cpu = amounts.get(extension.CPU)
    if cpu is None or cpu.is_zero:
        return amounts
    return {**amounts, extension.CPU: Quantity.of_milli(cpu.milli_value() - 1000 * cpus, cpu.format)}


def _document(annotations: Mapping[str, str], name: str) -> Any:
    """Return the JSON value of an annotation, None if there is none. Raises ValueError."""
    text = annotations.get(name)
    return None if text is None else go_json.parse(text)


def _kubelet_policy(annotations: Mapping[str, str]) -> KubeletPolicy:
    name = extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY
    members = go_json.members(_document(annotations, name), name)
    options = go_json.mapping(members.get("options"), f"{name}: options")
    return KubeletPolicy(
        go_json.text(members.get("policy"), f"{name}: policy"),
        None
        if options is None
        else {key: go_json.text(value, f"{name}: option {key}") for key, value in options.items()},
        go_json.text(members.get("reservedcpus"), f"{name}: reservedCPUs"),
    )


def _pod_cpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """The CPUs that kubelet gave to pods; single entries with invalid CPUs are skipped.

    Raises ValueError also for more than `cpuset.MOST_CPUS` CPUs, repeated ones included.
    """
    name = extension.ANNOTATION_NODE_POD_CPU_ALLOCS
    cpus: set[int] = set()
    named = 0
    for at, item in enumerate(go_json.array(_document(annotations, name), name) or []):
        place = f"{name}[{at}]"
        members = go_json.members(item, place)
        for field_name in ("namespace", "name"):
            go_json.text(members.get(field_name), f"{place}.{field_name}")
        uid = go_json.text(members.get("uid"), f"{place}.uid")
        text = go_json.text(members.get("cpuset"), f"{place}.cpuset")
        managed = go_json.boolean(members.get("managedbykubelet"), f"{place}.managedByKubelet")
        if managed and uid:
            try:
                of_pod = cpuset.parse_koordinator(text)
            except ValueError:
                continue
            named += len(of_pod)
            if named > cpuset.MOST_CPUS:
                raise ValueError(f"{place}: too many CPUs")
            cpus |= of_pod
    return frozenset(cpus)


def _node_reservation(annotations: Mapping[str, str]) -> frozenset[int]:
    name = extension.ANNOTATION_NODE_RESERVATION
    members = go_json.members(_document(annotations, name), name)
    resources = go_json.mapping(members.get("resources"), f"{name}: resources") or {}
    for amount in resources.values():
        from_wire(amount)  # one that cannot be read makes the whole annotation invalid
    go_json.text(members.get("applypolicy"), f"{name}: applyPolicy")
    return cpuset.parse_koordinator(go_json.text(members.get("reservedcpus"), f"{name}: reservedCPUs"))


def _system_qos(annotations: Mapping[str, str]) -> frozenset[int]:
    name = extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE
    members = go_json.members(_document(annotations, name), name)
    text = go_json.text(members.get("cpuset"), f"{name}: cpuset")
    exclusive = go_json.boolean(members.get("cpusetexclusive"), f"{name}: cpusetExclusive")
    return _NO_CPUS if exclusive is False else cpuset.parse_koordinator(text)
