"""The Secret through which all replicas share an authority and a certificate.

All replicas do the same; the first to write wins and the others read its result: a second create fails, and
an update applies to the version that was read.

Source: Koordinator, `pkg/webhook/util/writer/{certwriter,secret}.go`. Unlike there, labels, annotations and
foreign keys of a Secret survive a renewal.
"""

import asyncio
import logging
from base64 import b64decode, b64encode
from typing import Any

from koordpy.api.core import Secret
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.lib import certificates
from koordpy.lib.clock import Clock

from . import generator
from .artifacts import Artifacts

log = logging.getLogger(__name__)

_SECRETS = resource_of(Secret)


class CertificateSecret:
    """The certificate store of `mode: secret`."""

    def __init__(self, client: Client, namespace: str, name: str, dns: str, clock: Clock) -> None:
        self.namespace, self.name = namespace, name
        self._client, self._dns, self._clock = client, dns, clock

    async def obtain(self, serving: Artifacts | None) -> Artifacts:
        """Return certificates that are valid for another half a year, generating or renewing them if needed.

        `serving` are those that this replica serves: their authority stays trusted for a while after its
        replacement. Raises ApiError (Conflict when another replica was faster) or ConnectionFailed.
        """
        document = await self._read() or await self._create(serving)
        found = Artifacts.of(_decoded(document.get("data") or {}))
        now = self._clock.now()
        problem = generator.problem(found, self._dns, now)
        if problem:
            log.info("Secret %s/%s: %s; generating a new certificate", self.namespace, self.name, problem)
            fresh = await asyncio.to_thread(generator.generate, self._dns, now, found)
            if fresh.ca_cert != found.ca_cert and certificates.is_valid(found.ca_cert, now):
                fresh = fresh.remembering(found.ca_cert, now)
            document, found = await self._update(document, fresh), fresh
        if self._is_forgotten(found, serving):
            assert serving is not None
            found = found.remembering(serving.ca_cert, now)
            await self._update(document, found)
        return found

    def _is_forgotten(self, found: Artifacts, serving: Artifacts | None) -> bool:
        """Return whether another client replaced the authority: it deleted or overwrote the Secret."""
        now = self._clock.now()
        return (
            serving is not None
            and serving.ca_cert != found.ca_cert
            and not found.trusts(serving.ca_cert, now)
            and certificates.is_valid(serving.ca_cert, now)
        )

    async def _read(self) -> dict[str, Any] | None:
        try:
            return await self._client.get_raw(_SECRETS, self.namespace, self.name)
        except NotFound:
            return None

    async def _create(self, serving: Artifacts | None) -> dict[str, Any]:
        now = self._clock.now()
        fresh = await asyncio.to_thread(generator.generate, self._dns, now)
        if self._is_forgotten(fresh, serving):
            assert serving is not None
            fresh = fresh.remembering(serving.ca_cert, now)
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "data": _encoded(fresh.data()),
        }
        try:
            created = await self._client.create_raw(_SECRETS, self.namespace, document)
        except AlreadyExists:
            log.info("Secret %s/%s: created by another replica", self.namespace, self.name)
            return await self._client.get_raw(_SECRETS, self.namespace, self.name)
        log.info("Secret %s/%s: created, with a new authority", self.namespace, self.name)
        return created

    async def _update(self, document: dict[str, Any], artifacts: Artifacts) -> dict[str, Any]:
        changed = {**document, "data": {**(document.get("data") or {}), **_encoded(artifacts.data())}}
        return await self._client.update_raw(_SECRETS, self.namespace, self.name, changed)


def _encoded(data: dict[str, bytes]) -> dict[str, str]:
    return {name: b64encode(content).decode() for name, content in data.items()}


def _decoded(data: dict[str, str]) -> dict[str, bytes]:
    return {name: b64decode(text) for name, text in data.items()}  # an API server accepts nothing else
