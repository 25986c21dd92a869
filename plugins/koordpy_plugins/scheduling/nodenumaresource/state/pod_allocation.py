"""What a pod, or a Reservation, holds on its node: CPUs, and amounts on NUMA nodes.

Annotations come from tenants, too. An allocation names at most `MOST_NUMA_NODES` NUMA nodes and `MOST_CPUS`
CPUs; one that says more is invalid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.api import extension, resource_spec, resource_status
from koordpy.api.resource_amounts import Amounts, plus
from koordpy.api.resource_list import Quantities
from koordpy.lib import cpuset
from koordpy.lib.bounded_cache import cached

MOST_NUMA_NODES: Final = 64
MOST_CPUS: Final = cpuset.LAST_OF_RANGE + 1

_NO_CPUS: Final[frozenset[int]] = frozenset()
_NO_RESOURCES: Final[Mapping[int, Quantities]] = {}

Held = tuple[frozenset[int], Mapping[int, Quantities]]


@dataclass(frozen=True, slots=True)
class PodAllocation:
    """The CPUs and amounts of a pod by NUMA node (ascending), and its exclusive policy.

    Amounts must not be changed: pods with the same annotation share them.
    """

    uid: str
    namespace: str
    name: str
    cpus: frozenset[int] = _NO_CPUS
    exclusive_policy: str = ""
    numa_resources: Mapping[int, Amounts] = field(default_factory=dict)


def of_annotations(
    uid: str, namespace: str, name: str, annotations: Mapping[str, str]
) -> PodAllocation | None:
    """Return what annotations say that a pod holds, None if that is nothing. Raises ValueError."""
    text = annotations.get(extension.ANNOTATION_RESOURCE_STATUS)
    if text is None:
        return None
    policy = resource_spec.of(annotations).preferred_cpu_exclusive_policy
    cpus, resources = _held(text)
    if not cpus and not resources:
        return None
    return PodAllocation(uid, namespace, name, cpus, policy, resources)


@cached("numa_allocations", 16 << 20)
def _held(text: str) -> Held:
    """Return CPUs and amounts by NUMA node, added up where a node is named more than once."""
    status = resource_status.of({extension.ANNOTATION_RESOURCE_STATUS: text})
    cpus = cpuset.parse_koordinator(status.cpuset)
    if len(cpus) > MOST_CPUS:
        raise ValueError(f"{len(cpus)} CPUs: expected at most {MOST_CPUS}")
    if len(status.numa_nodes) > MOST_NUMA_NODES:
        raise ValueError(f"{len(status.numa_nodes)} NUMA nodes: expected at most {MOST_NUMA_NODES}")
    resources: dict[int, Quantities] = {}
    for each in status.numa_nodes:
        known = resources.get(each.node)
        amounts = dict(each.resources or {})
        resources[each.node] = amounts if known is None else plus(known, amounts)
    return cpus or _NO_CPUS, {node: resources[node] for node in sorted(resources)} or _NO_RESOURCES
