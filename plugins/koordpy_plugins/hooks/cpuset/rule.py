"""The CPU pools of a node, as the annotations of its NodeResourceTopology name them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api.extension import (
    ANNOTATION_KUBELET_CPU_MANAGER_POLICY,
    ANNOTATION_NODE_BE_CPU_SHARED_POOLS,
    ANNOTATION_NODE_CPU_SHARED_POOLS,
    ANNOTATION_NODE_SYSTEM_QOS_RESOURCE,
)
from koordpy.api.resource_status import ResourceStatus
from koordpy.lib import cpuset, go_json

STATIC: Final = "static"


@dataclass(frozen=True)
class SharedPool:
    """The CPUs of one NUMA node that pods share. `cpuset` is not checked."""

    socket: int
    node: int
    cpuset: str


@dataclass(frozen=True)
class KubeletPolicy:
    """kubelet's CPU manager."""

    policy: str = ""
    options: Mapping[str, str] | None = None
    reserved_cpus: str = ""


@dataclass(frozen=True)
class PoolRule:
    """The pools; None where there is no annotation, which is another rule than an empty list."""

    kubelet: KubeletPolicy
    pools: tuple[SharedPool, ...] | None
    best_effort_pools: tuple[SharedPool, ...] | None
    system_cpuset: str

    @property
    def all_shared(self) -> str:
        """The CPUs of all pools, as they are written there."""
        return ",".join(pool.cpuset for pool in self.pools or ())

    def on_nodes(self, status: ResourceStatus, *, best_effort: bool) -> str:
        """Return the CPUs of the pools of the NUMA nodes that a pod was given, in this order."""
        pools = (self.best_effort_pools if best_effort else self.pools) or ()
        return ",".join(
            pool.cpuset for given in status.numa_nodes for pool in pools if pool.node == given.node
        )


def parse(annotations: Mapping[str, str]) -> PoolRule:
    """Read the annotations. Raises ValueError; of the CPU lists only the system's is checked."""
    pools = _pools(annotations, ANNOTATION_NODE_CPU_SHARED_POOLS)
    best_effort = _pools(annotations, ANNOTATION_NODE_BE_CPU_SHARED_POOLS)
    return PoolRule(_policy(annotations), pools, best_effort, _system(annotations))


def cpus(pools: tuple[SharedPool, ...] | None) -> list[int]:
    """Return the CPUs of pools; pools with an invalid list have none."""
    found: list[int] = []
    for pool in pools or ():
        try:
            found += sorted(cpuset.parse(pool.cpuset))
        except ValueError:
            continue
    return found


def _pools(annotations: Mapping[str, str], name: str) -> tuple[SharedPool, ...] | None:
    text = annotations.get(name)
    if text is None:
        return None
    try:
        items = go_json.array(go_json.parse(text), "value")
        return None if items is None else tuple(_pool(item, f"[{at}]") for at, item in enumerate(items))
    except ValueError as error:
        raise ValueError(f"annotation {name}: {error}") from None


def _pool(value: Any, place: str) -> SharedPool:
    document = go_json.members(value, place)
    return SharedPool(
        go_json.integer(document.get("socket"), f"{place}.socket", 32),
        go_json.integer(document.get("node"), f"{place}.node", 32),
        go_json.text(document.get("cpuset"), f"{place}.cpuset"),
    )


def _policy(annotations: Mapping[str, str]) -> KubeletPolicy:
    text = annotations.get(ANNOTATION_KUBELET_CPU_MANAGER_POLICY)
    if text is None:
        return KubeletPolicy()
    try:
        document = go_json.members(go_json.parse(text), "value")
        options = go_json.mapping(document.get("options"), "options")
        return KubeletPolicy(
            go_json.text(document.get("policy"), "policy"),
            None
            if options is None
            else {name: go_json.text(value, f"options.{name}") for name, value in options.items()},
            go_json.text(document.get("reservedcpus"), "reservedCPUs"),
        )
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_KUBELET_CPU_MANAGER_POLICY}: {error}") from None


def _system(annotations: Mapping[str, str]) -> str:
    text = annotations.get(ANNOTATION_NODE_SYSTEM_QOS_RESOURCE)
    if text is None:
        return ""
    try:
        document = go_json.members(go_json.parse(text), "value")
        go_json.boolean(document.get("cpusetexclusive"), "cpusetExclusive")
        found = go_json.text(document.get("cpuset"), "cpuset")
        cpuset.parse(found)
        return found
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_NODE_SYSTEM_QOS_RESOURCE}: {error}") from None
