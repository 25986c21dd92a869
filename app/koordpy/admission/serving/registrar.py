"""The two webhook configurations, completed for the process that serves the webhooks.

The objects exist already: they come with the manifests and have the administrator's choices (selectors,
policies). Nothing is created or deleted here, and no other object is changed.
"""

import logging
from base64 import b64encode
from typing import Any

from koordpy.api.core import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound

from .configuration import ConfigurationError, Target, completed

log = logging.getLogger(__name__)


class Registrar:
    """Completes the configurations, each by its name; `target` has everything but the authorities."""

    def __init__(
        self, client: Client, target: Target, mutating: str, validating: str, *, inject_ca_bundle: bool = True
    ) -> None:
        self.names = {
            resource_of(MutatingWebhookConfiguration): mutating,
            resource_of(ValidatingWebhookConfiguration): validating,
        }
        self._client, self._target, self._inject = client, target, inject_ca_bundle

    async def register(self, trusted: bytes) -> bool:
        """Complete both configurations; return whether one was changed.

        Raises ConfigurationError (absent, or with an unusable template), Conflict when another client changes
        the same one concurrently, ApiError or ConnectionFailed.
        """
        bundle = b64encode(trusted).decode() if self._inject else None
        target = Target(
            self._target.paths, self._target.namespace, self._target.service, self._target.url, bundle
        )
        changed = [await self._complete(resource, name, target) for resource, name in self.names.items()]
        return any(changed)

    async def _complete(self, resource: Resource, name: str, target: Target) -> bool:
        try:
            document = await self._client.get_raw(resource, "", name)
        except NotFound:
            raise ConfigurationError(f"not found {resource.kind} {name}: apply it first") from None
        wanted = completed(document, target)
        if wanted == document:
            return False
        written = await self._client.update_raw(resource, "", name, wanted)
        if _version(written) == _version(document):
            return False  # equal but for the encoding
        names = [webhook.get("name") for webhook in wanted["webhooks"]]
        log.info("%s %s: completed; webhooks: %s", resource.kind, name, ", ".join(map(str, names)) or "none")
        return True


def _version(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("resourceVersion"))
