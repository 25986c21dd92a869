"""Evicts pods through the API server (Koordinator: `qosmanager/plugins/util/evictor.go`)."""

import asyncio
import logging
from typing import Final, TypeVar

import msgspec

from koordpy.agent.engine.eviction_metrics import EvictionMetrics
from koordpy.agent.interface.audit import Audit, NoAudit
from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import Clock
from koordpy.lib.ttl_cache import TTLCache

log = logging.getLogger(__name__)

SUCCESS: Final = "evictPodSuccess"
FAILURE: Final = "evictPodFail"
"""Reasons of events."""

T = TypeVar("T")

REMEMBERED_SECONDS: Final = 120.0
_SWEEP_SECONDS: Final = 60.0
_SUPPORTED: Final = "v1"


class UnsupportedEvictionError(Exception):
    """The API server has no eviction API of a version that is supported."""


class _Named(msgspec.Struct):
    name: str = ""
    kind: str = ""
    group: str = ""
    version: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


class _GroupVersion(msgspec.Struct):
    group_version: str = msgspec.field(default="", name="groupVersion")


class _Group(msgspec.Struct):
    name: str = ""
    preferred_version: _GroupVersion = msgspec.field(default_factory=_GroupVersion, name="preferredVersion")


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class Evictor:
    """Evicts pods with their UID as precondition, and remembers for two minutes which were evicted.

    A pod that a PodDisruptionBudget protects, or whose eviction fails otherwise, is not remembered; so it is
    tried again in the next round.
    """

    def __init__(
        self,
        client: Client | None,
        events: Recorder | None,
        clock: Clock,
        metrics: EvictionMetrics,
        audit: Audit | None = None,
    ) -> None:
        self._client, self._events, self._metrics = client, events, metrics
        self._audit = audit or NoAudit()
        self._evicted = TTLCache(REMEMBERED_SECONDS, _SWEEP_SECONDS, clock)
        self._version: str | None = None
        self._turn = asyncio.Lock()

    def is_evicted(self, pod: Pod) -> bool:
        """Return whether a pod was evicted within the last two minutes."""
        return pod.metadata.uid in self._evicted

    async def evict(self, pod: Pod, reason: str, message: str) -> bool:
        """Evict a pod unless it was evicted; return whether it is. Failures are reported by an event."""
        async with self._turn:
            if self.is_evicted(pod):
                return True
            what = f"evict Pod:{pod.metadata.key}, reason: {reason}, message: {message}"
            meta = pod.metadata
            self._audit.log(0, reason, message, type="pod", namespace=meta.namespace, name=meta.name)
            try:
                await self._evict(pod)
            except (ApiError, ConnectionFailed, UnsupportedEvictionError) as error:
                self._report(pod, FAILURE, f"{what}, error {error}")
                log.error("%s failed: %s", what, error)
                return False
            self._evicted.add(pod.metadata.uid)
            self._report(pod, SUCCESS, what)
            self._metrics.count(pod, reason)
            log.info("%s", what)
            return True

    async def _evict(self, pod: Pod) -> None:
        if self._client is None:
            raise UnsupportedEvictionError("the agent has no connection to the API server")
        if self._version is None:
            self._version = await supported_version(self._client)
        if self._version != _SUPPORTED:
            version, self._version = self._version, None
            raise UnsupportedEvictionError(f"not support evict version, {version}")
        await self._client.evict(pod)

    def _report(self, pod: Pod, reason: str, note: str) -> None:
        if self._events is not None:
            self._events.event(pod, "Warning", reason, note, action="Evicting")


async def supported_version(client: Client) -> str:
    """Return the version of the eviction API that the API server offers, "" if none.

    Raises ApiError, ConnectionFailed.
    """
    groups = await _get(client, "/apis", _Groups)
    policy = next((group for group in groups.groups if group.name == "policy"), None)
    if policy is None:
        return ""
    try:
        resources = await _get(client, "/api/v1", _Resources)
    except NotFound:
        return ""
    for resource in resources.resources:
        if resource.name == "pods/eviction" and resource.kind == "Eviction":
            return resource.version
    return policy.preferred_version.group_version.rpartition("/")[2]


async def _get(client: Client, path: str, type_: type[T]) -> T:
    body = (await client.send("GET", path)).body
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as error:
        raise UnsupportedEvictionError(f"GET {path}: the API server's answer is invalid: {error}") from None
