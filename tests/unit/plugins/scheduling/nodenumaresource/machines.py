"""Machines for tests, by sockets, NUMA nodes of a socket, cores of a NUMA node and threads of a core."""

import json
from collections.abc import Mapping
from typing import Any

from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import decode
from koordpy_plugins.scheduling.nodenumaresource.topology.cpu_topology import CPU, CPUTopology


def rows(sockets: int, nodes: int, cores: int, threads: int) -> list[tuple[int, int, int, int]]:
    """(socket, NUMA node, core, CPU); the CPUs of a core are next to each other."""
    return [
        (core // (nodes * cores), core // cores, core, core * threads + thread)
        for core in range(sockets * nodes * cores)
        for thread in range(threads)
    ]


def machine(sockets: int, nodes: int, cores: int, threads: int) -> CPUTopology:
    return CPUTopology(CPU.of(*row) for row in rows(sockets, nodes, cores, threads))


def detail(sockets: int, nodes: int, cores: int, threads: int) -> str:
    """The annotation cpu-topology."""
    names = ("socket", "node", "core", "id")
    return json.dumps(
        {"detail": [dict(zip(names, row, strict=True)) for row in rows(sockets, nodes, cores, threads)]}
    )


def nrt(
    name: str = "n0",
    cpus: str | None = None,
    zones: Mapping[str, Mapping[str, str]] | None = None,
    policies: tuple[str, ...] = (),
    **annotations: Any,
) -> NodeResourceTopology:
    """A NodeResourceTopology; `annotations` by the last part of their names, with `_` for `-`."""
    known = {
        "pod_cpu_allocs": extension.ANNOTATION_NODE_POD_CPU_ALLOCS,
        "cpu_manager_policy": extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY,
        "reservation": extension.ANNOTATION_NODE_RESERVATION,
        "system_qos_resource": extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE,
        "resource_amplification_ratio": extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO,
    }
    texts = {
        known[key]: value if isinstance(value, str) else json.dumps(value)
        for key, value in annotations.items()
    }
    if cpus is not None:
        texts[extension.ANNOTATION_NODE_CPU_TOPOLOGY] = cpus
    return decode(
        NodeResourceTopology,
        {
            "metadata": {"name": name, "annotations": texts},
            "topologyPolicies": list(policies),
            "zones": [
                {
                    "name": zone,
                    "type": "Node",
                    "resources": [
                        {"name": resource, "allocatable": amount} for resource, amount in amounts.items()
                    ],
                }
                for zone, amounts in (zones or {}).items()
            ],
        },
    )
