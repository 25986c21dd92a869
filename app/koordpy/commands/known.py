"""The cluster that a command reasons about: objects of an API server, laid over by objects from files."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from koordpy.admission.explain import read
from koordpy.api.core import Namespace, Pod, PriorityClass
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Connection

PROFILE = ClusterColocationProfile.__name__

_FACTS: tuple[type[KubeObject], ...] = (Namespace, PriorityClass)
_SERVED = ("status",)
_GIVEN = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
)
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}


class NothingGiven(LookupError):
    """The files and options leave nothing to work on."""


@dataclass(frozen=True)
class Access:
    """Which API server is asked, as the options say."""

    server: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options is there."""
        return bool(self.server or self.kubeconfig or self.context)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Open a client; without options by $KUBECONFIG, ~/.kube/config, or the pod's service account."""
        client = Client(Connection.find(self.kubeconfig, self.context, self.server))
        try:
            yield client
        finally:
            await client.close()


async def fill_facts(cluster: Cluster, client: Client) -> None:
    """Put the namespaces and priority classes of an API server into a cluster."""
    for type_ in _FACTS:
        store = cluster.store(type_)
        for obj in await client.list_all(type_):
            store.apply(obj)


async def profiles_of(client: Client) -> list[dict[str, Any]]:
    """Return an API server's profiles as they are written."""
    return [document async for document in client.list_raw(resource_of(ClusterColocationProfile))]


async def pods_of(client: Client) -> AsyncIterator[dict[str, Any]]:
    """Yield all pods of an API server, with all their fields."""
    async for document in client.list_raw(resource_of(Pod)):
        yield document


def put_profiles(cluster: Cluster, documents: Iterable[Mapping[str, Any]]) -> None:
    """Put profiles into a cluster. Raises DecodeError."""
    store = cluster.store(ClusterColocationProfile)
    for document in documents:
        store.apply(read(ClusterColocationProfile, document))


def members(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object that stands under a name; an empty one where there is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def name_of(document: Mapping[str, Any]) -> str:
    """Return an object's name, or what its name is generated from."""
    metadata = members(document, "metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "")


def as_created_again(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return an existing pod as its owner would create it: without what the API server and a node added.

    What earlier admission changed in it stays; there is no record of the pod before that.
    """
    document = {key: value for key, value in pod.items() if key not in _SERVED}
    metadata = {key: value for key, value in members(pod, "metadata").items() if key not in _GIVEN}
    document["metadata"] = metadata
    if isinstance(pod.get("spec"), dict):
        document["spec"] = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return document


def pod_of(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a pod, or the pod that a workload (Deployment, Job ...) would create; None for other objects."""
    kind = document.get("kind")
    if kind == "Pod":
        return dict(document)
    path = _TEMPLATES.get(str(kind))
    if path is None:
        return None
    template: Any = document
    for name in path:
        template = template.get(name) if isinstance(template, dict) else None
    if not isinstance(template, dict):
        return None
    own = template.get("metadata")
    own = dict(own) if isinstance(own, dict) else {}
    outer = document.get("metadata")
    own.pop("name", None)
    own["generateName"] = f"{name_of(document)}-"
    if isinstance(outer, dict) and outer.get("namespace"):
        own["namespace"] = outer["namespace"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template.get("spec") or {}}
