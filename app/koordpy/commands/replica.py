"""The pod of koordpy's that a question is for: of a replicated component the one that acts, by its Leases."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .options import Failure

NAMESPACE: Final = "koordinator-system"

_NAME_LABEL: Final = "app.kubernetes.io/name=koordpy"

_STATIC_PODS: Final = ("kube-system", "component=kube-scheduler")
"""Where koordpy may be a container of the cluster's own kube-scheduler."""

_CONTAINER: Final = "koordpy"

LEASES: Final = {
    # kube-scheduler's come first: its holder calls the extender in its own pod, which has the decisions.
    "scheduler": ("koordpy-scheduler", "kube-system/kube-scheduler", "koord-scheduler"),
    "webhooks": (),
    "worker": ("koord-descheduler", "koordinator-manager"),
    "qos-agent": (),
}
"""Components by their label, with the Leases of the replica that acts; without a namespace koordpy's own."""


@dataclass(frozen=True)
class Replica:
    """A pod, and `note`: why this one, where that is not certain."""

    namespace: str
    name: str
    note: str = ""


class NoPod(Failure):
    """The cluster has no pod of the component."""


def find(core: Any, coordination: Any, component: str, namespace: str, node: str = "") -> Replica:
    """Return the pod of a component that acts, on one node if given.

    `core` and `coordination` are API clients of the package `kubernetes`. Raises NoPod; Failure where several
    pods act; the package's ApiException for missing rights.
    """
    pods = core.list_namespaced_pod(
        namespace, label_selector=f"{_NAME_LABEL},app.kubernetes.io/component={component}"
    ).items
    if component == "scheduler":
        pods = [*pods, *_beside_kube_scheduler(core, has_others=bool(pods))]
    if node:
        pods = [pod for pod in pods if pod.spec.node_name == node]
    running = [pod for pod in pods if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp]
    if not running:
        raise NoPod(_absence(component, namespace, node, len(pods)))
    if len(running) == 1:
        return _replica(running[0])
    if component == "qos-agent":
        raise Failure(f"{len(running)} QoS agents run in {namespace}: choose one with --node")
    for lease in LEASES[component]:
        holder = _holder(coordination, lease, namespace)
        for pod in running:
            if holder and holder in _hosts(pod):
                return _replica(pod)
    ready = [pod for pod in running if _is_ready(pod)] or running
    if not LEASES[component]:
        return _replica(ready[0])
    leases = ", ".join(LEASES[component])
    name = ready[0].metadata.name
    return _replica(ready[0], f"no Lease ({leases}) names one of {len(running)} replicas; using {name}")


def _beside_kube_scheduler(core: Any, *, has_others: bool) -> Iterable[Any]:
    """Return the pods of the cluster's kube-scheduler that have a container of koordpy's."""
    from kubernetes.client import ApiException

    namespace, labels = _STATIC_PODS
    try:
        pods: Sequence[Any] = core.list_namespaced_pod(namespace, label_selector=labels).items
    except ApiException as error:
        if error.status == 403 and has_others:  # koordpy's own namespace suffices
            return []
        raise
    return [
        pod
        for pod in pods
        if any(
            container.name == _CONTAINER
            for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        )
    ]


def _holder(coordination: Any, lease: str, namespace: str) -> str:
    """Return the host that holds a Lease; empty where there is none, or no right to read it."""
    from kubernetes.client import ApiException

    place, _, name = lease.rpartition("/")
    try:
        found = coordination.read_namespaced_lease(name, place or namespace)
    except ApiException as error:
        if error.status in (403, 404):
            return ""
        raise
    # client-go's and koordpy's identities begin with the host name, which has no underscore.
    return str(found.spec.holder_identity or "").partition("_")[0]


def _hosts(pod: Any) -> set[str]:
    """Return the host names that a pod's processes may have."""
    if pod.spec.host_network:
        return {pod.spec.node_name}
    return {pod.metadata.name, pod.metadata.name[:63], *filter(None, [pod.spec.hostname])}


def _is_ready(pod: Any) -> bool:
    return any((c.type, c.status) == ("Ready", "True") for c in pod.status.conditions or ())


def _replica(pod: Any, note: str = "") -> Replica:
    return Replica(pod.metadata.namespace, pod.metadata.name, note)


def _absence(component: str, namespace: str, node: str, others: int) -> str:
    where = f"{namespace}{f' on node {node}' if node else ''}"
    if others:
        return (
            f"no pod of koordpy's {component} in {where} is running, of {others}: "
            f"kubectl -n {namespace} get pods"
        )
    beside = ""
    if component == "scheduler":
        beside = " and no kube-scheduler in kube-system with a container koordpy"
    return (
        f"no pod of koordpy's {component} in {where}{beside}; --koordpy-namespace names another namespace, "
        "--debug-server a koordpy that runs outside of the cluster"
    )
