"""Reads and writes of ElasticQuotas without lost charges.

The watch delivers koordpy's own write a moment later; until then the object that the write returned is used.
A write has the resource version that it is based on, so of two replicas that charge a quota at the same time
one gets a conflict. Source: Koordinator, `pkg/webhook/quotaevaluate/quota_accessor.go`.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from koordpy.api import extension
from koordpy.api.koordinator import ElasticQuota
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed
from koordpy.cluster.store import Store

_REMEMBERED: Final = 100


class QuotaGone(LookupError):
    """The quota does not exist any more."""


class QuotaAccessor:
    """The quotas from the watch, or from koordpy's later writes."""

    def __init__(
        self,
        quotas: Store[ElasticQuota],
        client: Client | None,
        *,
        fresh_get: bool,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """Without a client there are no writes. `fresh_get`: read from the API server after a conflict."""
        self._quotas, self._client = quotas, client
        self._fresh_get, self._sleep = fresh_get, sleep
        self._written: OrderedDict[str, ElasticQuota] = OrderedDict()

    @property
    def can_write(self) -> bool:
        """Whether there is an API server to write to."""
        return self._client is not None

    def get(self, key: str) -> ElasticQuota:
        """Return the newest known state of a quota. Raises QuotaGone."""
        shown = self._quotas.by_key(key)
        if shown is None:
            name = key.rpartition("/")[2]
            raise QuotaGone(f'elasticquotas.scheduling.sigs.k8s.io "{name}" not found')
        written = self._written.get(key)
        if written is not None and _version(written) > _version(shown):
            self._written.move_to_end(key)
            return written
        self._written.pop(key, None)
        return shown

    async def write(self, quota: ElasticQuota, child_request: str, pause: float) -> None:
        """Write the annotation of a quota that has not changed since it was read.

        Raises Conflict if it has, after `pause` seconds; other ApiErrors, or ConnectionFailed.
        """
        if self._client is None:
            raise ValueError(f"quota {quota.metadata.key} cannot be charged: there is no API server")
        meta = quota.metadata
        annotations = {extension.ANNOTATION_QUOTA_CHILD_REQUEST: child_request}
        patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}}
        try:
            self._remember(await self._client.patch(ElasticQuota, meta.namespace, meta.name, patch))
        except Conflict:
            await self._sleep(pause)
            if self._fresh_get:
                with suppress(ApiError, ConnectionFailed):  # the caller gets the conflict
                    self._remember(await self._client.get(ElasticQuota, meta.namespace, meta.name))
            raise

    def _remember(self, quota: ElasticQuota) -> None:
        self._written[quota.metadata.key] = quota
        self._written.move_to_end(quota.metadata.key)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)


def _version(quota: ElasticQuota) -> int:
    text = quota.metadata.resource_version
    return int(text) if text.isdecimal() else 0
