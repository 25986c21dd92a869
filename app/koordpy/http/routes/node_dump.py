"""`/apis/v1/nodes/NAME`: a node as the scheduler accounts for it, in Koordinator's format.

The fields are those of kube-scheduler's own types, with Go's names. Selectors of affinity terms are shown as
written, while Go shows empty objects. `requested.AllowedPodNumber` is always 0, as in Koordinator: `pods`
counts the pods. Source: Koordinator, `pkg/scheduler/frameworkext/services/types.go`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.columns import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.cluster.nodes import NodeTable


def node_dump(nodes: NodeTable, name: str) -> dict[str, Any]:
    """Return the state of a node; empty fields are omitted. Raises LookupError for an unknown node."""
    row = nodes.row_of(name)
    node = None if row is None else nodes.node(row)
    if row is None or node is None:
        raise LookupError(f"cannot find node {name}")
    pods = list(nodes.pods_on(row))
    infos = [_pod_info(pod) for pod in pods]
    allocatable, requested = nodes.allocatable[row].tolist(), nodes.requested[row].tolist()
    requested[PODS] = 0
    remaining = [offered - taken for offered, taken in zip(allocatable, requested, strict=True)]
    nonzero = nodes.nonzero_requested[row].tolist()
    dump = {
        "node": node,
        "pods": infos,
        "podsWithAffinity": [info for info in infos if _has_affinity(info["Pod"])],
        "podsWithRequiredAntiAffinity": [info for info in infos if info["RequiredAntiAffinityTerms"]],
        "usedPorts": _ports(pods),
        "requested": _resource(nodes, requested),
        "nonZeroRequested": {
            "MilliCPU": nonzero[0],
            "Memory": nonzero[1],
            "EphemeralStorage": 0,
            "AllowedPodNumber": 0,
            "ScalarResources": None,
        },
        "remaining": _resource(nodes, remaining),
        "allocatable": _resource(nodes, allocatable),
        "imageStates": _images(nodes, row),
        "pvcRefCounts": _claims(pods),
        "generation": int(nodes.generation[row]),
    }
    return {member: value for member, value in dump.items() if value not in ([], {}, 0)}


def _pod_info(pod: Pod) -> dict[str, Any]:
    affinity = pod.spec.affinity
    together = affinity.pod_affinity if affinity is not None else None
    apart = affinity.pod_anti_affinity if affinity is not None else None
    info: dict[str, Any] = {"Pod": pod}
    for kind, found in (("Affinity", together), ("AntiAffinity", apart)):
        required = found.required_during_scheduling_ignored_during_execution if found is not None else ()
        preferred = found.preferred_during_scheduling_ignored_during_execution if found is not None else ()
        info[f"Required{kind}Terms"] = [_term(pod, term) for term in required] or None
        info[f"Preferred{kind}Terms"] = [
            {**_term(pod, weighted.pod_affinity_term), "Weight": weighted.weight} for weighted in preferred
        ] or None
    return info


def _term(pod: Pod, term: Any) -> dict[str, Any]:
    namespaces = term.namespaces
    if not namespaces and term.namespace_selector is None:
        namespaces = [pod.metadata.namespace]
    return {
        "Namespaces": {namespace: {} for namespace in namespaces},
        "Selector": term.label_selector,
        "TopologyKey": term.topology_key,
        "NamespaceSelector": term.namespace_selector,
    }


def _has_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and not (affinity.pod_affinity is None and affinity.pod_anti_affinity is None)


def _ports(pods: Iterable[Pod]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        for container in pod.spec.containers:
            for port in container.ports:
                entry = {"Protocol": port.protocol or "TCP", "Port": port.host_port}
                if port.host_port > 0 and entry not in found.setdefault(port.host_ip or "0.0.0.0", []):
                    found[port.host_ip or "0.0.0.0"].append(entry)
    return {address: entries for address, entries in found.items() if entries}


def _resource(nodes: NodeTable, amounts: list[int]) -> dict[str, Any]:
    """Return amounts in the form of the scheduler's Resource."""
    names = nodes.resources.names
    scalars = {names[i]: amounts[i] for i in range(PODS + 1, len(amounts)) if amounts[i]}
    return {
        "MilliCPU": amounts[CPU],
        "Memory": amounts[MEMORY],
        "EphemeralStorage": amounts[EPHEMERAL_STORAGE],
        "AllowedPodNumber": amounts[PODS],
        "ScalarResources": scalars or None,
    }


def _images(nodes: NodeTable, row: int) -> Mapping[str, dict[str, int]]:
    """Return the node's images by name, each with the number of nodes that have it."""
    node = nodes.node(row)
    sizes = {name: image.size_bytes for image in (node.status.images if node else ()) for name in image.names}
    if not sizes:
        return {}
    holders: Counter[str] = Counter()
    for other in nodes.all().rows.tolist():
        known = nodes.node(other)
        if known is not None:
            holders.update({name for image in known.status.images for name in image.names} & sizes.keys())
    return {name: {"Size": size, "NumNodes": holders[name]} for name, size in sizes.items()}


def _claims(pods: Iterable[Pod]) -> dict[str, int]:
    counts: Counter[str] = Counter(
        f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        for pod in pods
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )
    return dict(counts)
