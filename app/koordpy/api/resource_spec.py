"""The annotations with which a pod asks for CPUs and NUMA nodes: resource-spec and numa-topology-spec.

The values are not checked: a policy that is unknown has no effect. Source: Koordinator,
`apis/extension/numa_aware.go` (`ResourceSpec`, `NUMATopologySpec`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koordpy.lib import go_json

from .extension import ANNOTATION_NUMA_TOPOLOGY_SPEC, ANNOTATION_RESOURCE_SPEC

DEFAULT = "Default"
"""The bind policy that stands for that of the scheduler's configuration."""


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """How a pod's CPUs are chosen; empty where the pod does not say."""

    required_cpu_bind_policy: str = ""
    preferred_cpu_bind_policy: str = ""
    preferred_cpu_exclusive_policy: str = ""

    def text(self) -> str:
        """Return the text of the annotation: fields in Koordinator's order, without empty ones."""
        fields = {
            "requiredCPUBindPolicy": self.required_cpu_bind_policy,
            "preferredCPUBindPolicy": self.preferred_cpu_bind_policy,
            "preferredCPUExclusivePolicy": self.preferred_cpu_exclusive_policy,
        }
        return go_json.encode({name: value for name, value in fields.items() if value})


@dataclass(frozen=True, slots=True)
class NUMATopologySpec:
    """The NUMA policy that a pod asks for; empty where it does not say."""

    numa_topology_policy: str = ""
    single_numa_node_exclusive: str = ""


_NO_SPEC = ResourceSpec()
_NO_TOPOLOGY = NUMATopologySpec()


def of(annotations: Mapping[str, str]) -> ResourceSpec:
    """Return what a pod's annotation says, an empty one if there is none. Raises ValueError."""
    if ANNOTATION_RESOURCE_SPEC not in annotations:
        return _NO_SPEC
    document = _members(annotations, ANNOTATION_RESOURCE_SPEC)
    return ResourceSpec(
        _text(document, ANNOTATION_RESOURCE_SPEC, "requiredCPUBindPolicy"),
        _text(document, ANNOTATION_RESOURCE_SPEC, "preferredCPUBindPolicy"),
        _text(document, ANNOTATION_RESOURCE_SPEC, "preferredCPUExclusivePolicy"),
    )


def numa_topology_of(annotations: Mapping[str, str]) -> NUMATopologySpec:
    """Return what a pod's annotation says, an empty one if there is none. Raises ValueError."""
    if ANNOTATION_NUMA_TOPOLOGY_SPEC not in annotations:
        return _NO_TOPOLOGY
    document = _members(annotations, ANNOTATION_NUMA_TOPOLOGY_SPEC)
    return NUMATopologySpec(
        _text(document, ANNOTATION_NUMA_TOPOLOGY_SPEC, "numaTopologyPolicy"),
        _text(document, ANNOTATION_NUMA_TOPOLOGY_SPEC, "singleNUMANodeExclusive"),
    )


def _members(annotations: Mapping[str, str], key: str) -> Mapping[str, Any]:
    try:
        return go_json.members(go_json.parse(annotations[key]), "value")
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None


def _text(document: Mapping[str, Any], key: str, field: str) -> str:
    try:
        return go_json.text(document.get(field.lower()), field)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None
