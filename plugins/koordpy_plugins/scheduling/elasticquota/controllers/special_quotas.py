"""The ElasticQuotas of the root, of system pods, and of pods without a quota.

They exist without an object too; with one, users see what they request and use, and can limit them. Source:
Koordinator, `pkg/scheduler/plugins/elasticquota/plugin_helper.go`.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from koordpy.api import extension
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import from_wire
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM
from koordpy.api.scheme import resource_of
from koordpy.cluster.errors import AlreadyExists, ApiError, ConnectionFailed
from koordpy.lib.supervise import Backoff
from koordpy.scheduling.interface.handle import Handle

log = logging.getLogger(__name__)

_RESOURCE: Final = resource_of(ElasticQuota)
_LONGEST_PAUSE: Final = 300.0


class SpecialQuotas:
    """Creates the objects that are missing."""

    def __init__(self, args: ElasticQuotaArgs, handle: Handle) -> None:
        self._args, self._handle = args, handle
        self._quotas = handle.cluster.store(ElasticQuota)

    async def create(self) -> None:
        """Create what is missing; repeat, more and more seldom, while that fails."""
        backoff = Backoff(initial=1.0, maximum=_LONGEST_PAUSE, rng=self._handle.rng)
        while not await self.create_once():
            await asyncio.sleep(backoff.next())

    async def create_once(self) -> bool:
        """Create what is missing; return whether all of them exist now."""
        known = {quota.metadata.name for quota in self._quotas}
        results = [await self._create(document) for document in self.documents(known)]
        return all(results)

    def documents(self, known: set[str]) -> list[dict[str, Any]]:
        """Return the quotas that are missing; one of another namespace counts as well."""
        root = {
            extension.LABEL_QUOTA_IS_PARENT: "true",
            extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE: "false",
            extension.LABEL_QUOTA_PARENT: "",
        }
        made = (
            self._document(ROOT, root, {}),
            self._document(SYSTEM, {}, self._args.system_quota_group_max),
            self._document(DEFAULT, {}, self._args.default_quota_group_max),
        )
        return [document for document in made if document["metadata"]["name"] not in known]

    def _document(self, name: str, labels: Mapping[str, str], most: Mapping[str, Any]) -> dict[str, Any]:
        metadata: dict[str, Any] = {"namespace": self._args.quota_group_namespace, "name": name}
        if labels:
            metadata["labels"] = dict(labels)
        spec = {"max": {resource: str(from_wire(amount)) for resource, amount in most.items()}}
        return {
            "apiVersion": _RESOURCE.api_version,
            "kind": _RESOURCE.kind,
            "metadata": metadata,
            "spec": spec if most else {},
        }

    async def _create(self, document: dict[str, Any]) -> bool:
        client, name = self._handle.client, document["metadata"]["name"]
        if client is None:
            return True
        try:
            await client.create_raw(_RESOURCE, document["metadata"]["namespace"], document)
        except AlreadyExists:
            return True
        except (ApiError, ConnectionFailed) as error:
            log.error("failed to create ElasticQuota %s: %s", name, error)
            return False
        log.info("created ElasticQuota %s", name)
        return True
