"""The cluster that a command works on: objects of an API server, overlaid with objects from files."""

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


class NothingGiven(LookupError):
    """The files and options select no object."""


@dataclass(frozen=True)
class Access:
    """The API server that the options select."""

    server: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options is set."""
        return bool(self.server or self.kubeconfig or self.context)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Open a client; without options from $KUBECONFIG, ~/.kube/config, or the pod's service account."""
        client = Client(Connection.find(self.kubeconfig, self.context, self.server))
        try:
            yield client
        finally:
            await client.close()


async def fill_facts(cluster: Cluster, client: Client) -> None:
    """Load the namespaces and PriorityClasses of an API server into a cluster."""
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
