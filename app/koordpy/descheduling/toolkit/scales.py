"""The replicas of workloads of kinds that koordpy does not follow: their `scale` subresource, by discovery.

Filters cannot wait for the API server, so scales are read in the background and kept for a while; a workload
whose scale is not known yet counts as one whose scale cannot be read. Source: Koordinator,
`pkg/descheduler/controllers/migration/controllerfinder` (`getScaleController`).
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

import msgspec

from koordpy.api.meta import KubeObject, OwnerReference
from koordpy.api.scheme import Resource
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.paths import object_path
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

FRESH_FOR: Final = 30.0
"""Seconds after which a scale is read again when it is asked for."""
KEPT_FOR: Final = 300.0
"""Seconds after which a scale that could not be read again is no longer used."""
KINDS_FOR: Final = 60.0
"""Seconds for which the resources of an API version are kept."""
MAX_WORKLOADS: Final = 20_000
_BYTES: Final = 8 << 20
_KINDS: Final = 256


class Unresolved(ValueError):
    """A workload that cannot be found, or not yet; the message says why."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a workload, from its `scale` subresource."""

    uid: str
    replicas: int
    is_deleting: bool = False


@dataclass(frozen=True, slots=True)
class _Key:
    namespace: str
    api_version: str
    kind: str
    name: str

    @property
    def size(self) -> int:
        return 400 + sum(map(len, (self.namespace, self.api_version, self.kind, self.name)))


@dataclass(frozen=True, slots=True)
class _Answer:
    scale: Scale | None
    error: str
    at: float


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _ScaleSpec(msgspec.Struct):
    replicas: int = 0


class _ScaleObject(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)


class _ApiResource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ApiResources(msgspec.Struct):
    resources: list[_ApiResource] = []


class Scales:
    """Reads scales in the background, while `run` runs."""

    def __init__(self, client: Client | None, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._answers: BoundedLru[_Key, _Answer] = BoundedLru("scales", _BYTES, max_entries=MAX_WORKLOADS)
        self._kinds: dict[str, tuple[_ApiResources, float]] = {}
        self._wanted: dict[_Key, None] = {}
        self._asked = asyncio.Event()

    def get(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """Return the scale of a workload, None if it does not exist or its kind has none.

        Raises Unresolved where it could not be read, or not yet.
        """
        key = _Key(namespace, owner.api_version, owner.kind, owner.name)
        answer = self._answers.get(key)
        age = self._clock.monotonic() - answer.at if answer is not None else 0.0
        if answer is None or age > FRESH_FOR:
            self._want(key)
        if answer is None or age > KEPT_FOR:
            raise Unresolved(f"the scale of {owner.kind} {namespace}/{owner.name} is not known yet")
        if answer.error:
            raise Unresolved(answer.error)
        return answer.scale

    def _want(self, key: _Key) -> None:
        if len(self._wanted) < MAX_WORKLOADS:
            self._wanted[key] = None
            self._asked.set()

    async def run(self) -> None:
        """Read what is asked for, until cancelled."""
        while True:
            await self._asked.wait()
            await self.read_wanted()

    async def read_wanted(self) -> None:
        """Read what has been asked for so far."""
        wanted, self._wanted = self._wanted, {}
        self._asked.clear()
        for key in wanted:
            scale, error = None, ""
            try:
                scale = await self._read(key)
            except Unresolved as problem:
                error = str(problem)
            except (ApiError, ConnectionFailed, msgspec.DecodeError) as problem:
                error = f"the scale of {key.kind} {key.namespace}/{key.name} cannot be read: {problem}"
                before = self._answers.peek(key)
                is_new = before is None or before.error != error
                log.log(logging.WARNING if is_new else logging.DEBUG, "%s", error)
            answer = _Answer(scale, error, self._clock.monotonic())
            self._answers.put(key, answer, key.size + len(error))

    async def _read(self, key: _Key) -> Scale | None:
        client = self._client
        if client is None:
            raise Unresolved(f"the scale of {key.kind} cannot be read: there is no API server")
        resource, has_scale = await self._resource(client, key)
        if not has_scale:
            return None
        try:
            path = object_path(resource, key.namespace, key.name, "scale")
        except ValueError:
            return None  # no object can have that name
        try:
            body = (await client.send("GET", path)).body
        except NotFound:
            return None
        found = msgspec.json.decode(body, type=_ScaleObject)
        return Scale(found.metadata.uid, found.spec.replicas, found.metadata.deletion_timestamp is not None)

    async def _resource(self, client: Client, key: _Key) -> tuple[Resource, bool]:
        """Return the resource of a kind, and whether it has a scale. Raises Unresolved."""
        group, _, version = key.api_version.rpartition("/")
        if not version or "/" in group:
            raise _unknown(key)
        root = Resource(group, version, "", key.kind, True, KubeObject)
        listed = (await self._resources(client, key, root)).resources
        for resource in listed:
            if resource.kind == key.kind and "/" not in resource.name:
                found = Resource(group, version, resource.name, key.kind, resource.namespaced, KubeObject)
                return found, any(other.name == f"{resource.name}/scale" for other in listed)
        raise _unknown(key)

    async def _resources(self, client: Client, key: _Key, root: Resource) -> _ApiResources:
        now = self._clock.monotonic()
        known = self._kinds.get(key.api_version)
        if known is not None and now - known[1] <= KINDS_FOR:
            return known[0]
        try:
            path = object_path(root, "").removesuffix("/")
            found = msgspec.json.decode((await client.send("GET", path)).body, type=_ApiResources)
        except (NotFound, ValueError):
            found = _ApiResources()
        if len(self._kinds) >= _KINDS:
            self._kinds.clear()
        self._kinds[key.api_version] = found, now
        return found


def _unknown(key: _Key) -> Unresolved:
    return Unresolved(f'no matches for kind "{key.kind}" in version "{key.api_version}"')
