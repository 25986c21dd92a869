"""The objects that workload controllers reconcile: metadata as structs, spec and status as documents.

A controller copies pod templates and claims whole, so no field may get lost on the way.
"""

from datetime import datetime
from typing import Any

from koordpy.api import label_selector
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject, LabelSelector, parse_time
from koordpy.api.scheme import Resource, decode, register, resource_of

Document = dict[str, Any]


class Workload(KubeObject):
    """An object with a spec and a status."""

    spec: Document = {}
    status: Document = {}

    @property
    def replicas(self) -> int:
        """The wanted number of pods."""
        return int(self.spec.get("replicas", 1))

    def count(self, name: str) -> int:
        """Return a number of the status, 0 if it is not set."""
        return int(self.status.get(name) or 0)

    @property
    def observed(self) -> int:
        """The generation that the status is about."""
        return self.count("observedGeneration")


class Deployment(Workload):
    """A Deployment."""


class ReplicaSet(Workload):
    """A ReplicaSet."""


class StatefulSet(Workload):
    """A StatefulSet."""


class DaemonSet(Workload):
    """A DaemonSet."""


class Job(Workload):
    """A Job."""


class CronJob(Workload):
    """A CronJob."""


class ControllerRevision(KubeObject):
    """A former pod template of a StatefulSet or a DaemonSet."""

    data: Document = {}
    revision: int = 0


class PersistentVolumeClaim(Workload):
    """A claim that belongs to a pod of a StatefulSet."""


class ServiceAccount(KubeObject):
    """A service account, of which only its existence matters."""


register(
    Resource("apps", "v1", "deployments", "Deployment", True, Deployment),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet),
    Resource("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet),
    Resource("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision),
    Resource("batch", "v1", "jobs", "Job", True, Job),
    Resource("batch", "v1", "cronjobs", "CronJob", True, CronJob),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, PersistentVolumeClaim),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ServiceAccount),
)


def owner_reference(owner: KubeObject) -> Document:
    """Return the reference by which an object names its controller."""
    resource = resource_of(type(owner))
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(workload: Workload) -> label_selector.Selector:
    """Return the matcher of a workload's objects; an invalid or missing selector matches nothing."""
    selector = workload.spec.get("selector")
    try:
        return label_selector.of(decode(LabelSelector, selector)) if selector else label_selector.NOTHING
    except ValueError:
        return label_selector.NOTHING


def created_at(obj: KubeObject) -> tuple[str, str]:
    """Sort key: older objects first, then by name."""
    return obj.metadata.creation_timestamp or "", obj.metadata.name


# --- pods ----------------------------------------------------------------------------------------


def is_active(pod: Pod) -> bool:
    """Return whether a pod counts for its owner: it has neither ended nor been deleted."""
    return not pod.is_terminal and pod.metadata.deletion_timestamp is None


def ready_since(pod: Pod) -> datetime | None:
    """Return the time since which a pod is ready, or None."""
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            text = condition.last_transition_time
            return parse_time(text) if text else parse_time("1970-01-01T00:00:00Z")
    return None


def available_in(pod: Pod, min_ready: float, now: datetime) -> float | None:
    """Return the seconds until a pod is available, 0 if it is; None if it is not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return max(min_ready - (now - since).total_seconds(), 0.0) if min_ready else 0.0
