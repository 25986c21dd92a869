"""A cluster with the shipped webhook configurations, and replicas of koordpy that share a Secret."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from koordpy import data
from koordpy.admission.serving.artifacts import Artifacts
from koordpy.api.core import MutatingWebhookConfiguration, Namespace, Secret, ValidatingWebhookConfiguration
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import Clock
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS, service_settings
from tests.processes import serve_process

NAMESPACE = "koordinator-system"
SECRETS = resource_of(Secret)
MUTATING = resource_of(MutatingWebhookConfiguration)
VALIDATING = resource_of(ValidatingWebhookConfiguration)
NAMES = {
    MUTATING: "koordinator-mutating-webhook-configuration",
    VALIDATING: "koordinator-validating-webhook-configuration",
}
SECRET_NAME = "koordinator-webhook-certs"

SAME_PORT = {"port": 443}
"""In the URLs that are registered, so that replicas on one machine have the same opinion."""

Document = dict[str, Any]


def shipped(kind: Resource) -> Document:
    """Return a webhook configuration as it is in `deploy/`."""
    file = "mutating.yaml" if kind is MUTATING else "validating.yaml"
    document: Document = yaml.safe_load(data.deploy("webhooks", file).read_text())
    return document


class Grounds:
    """The cluster, and what is in it."""

    def __init__(self, server: ApiServer, client: Client, folder: Path) -> None:
        self.server, self.client, self.folder = server, client, folder

    async def install(self) -> None:
        """Apply the manifests."""
        await self.client.create_raw(
            resource_of(Namespace),
            "",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        )
        for kind in NAMES:
            await self.client.create_raw(kind, "", shipped(kind))

    async def configuration(self, kind: Resource) -> Document:
        return await self.client.get_raw(kind, "", NAMES[kind])

    async def webhooks(self, kind: Resource) -> dict[str, Document]:
        """Return the webhooks of a configuration by their names."""
        webhooks = (await self.configuration(kind)).get("webhooks", [])
        return {webhook["name"]: webhook for webhook in webhooks}

    async def secret(self) -> Artifacts:
        document = await self.client.get_raw(SECRETS, NAMESPACE, SECRET_NAME)
        return Artifacts.of({name: base64.b64decode(text) for name, text in document["data"].items()})

    async def secret_or_none(self) -> Artifacts | None:
        try:
            return await self.secret()
        except NotFound:
            return None

    async def write_secret(self, artifacts: Artifacts) -> None:
        patch = {"data": {name: base64.b64encode(value).decode() for name, value in artifacts.data().items()}}
        await self.client.patch_raw(SECRETS, NAMESPACE, SECRET_NAME, patch)

    async def trust(self) -> ssl.SSLContext:
        """Trust what kube-apiserver would: the caBundle of the configuration as it is now."""
        [bundle] = {hook["clientConfig"]["caBundle"] for hook in (await self.webhooks(MUTATING)).values()}
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())

    def make(self, name: str = "a", clock: Clock | None = None, **changes: Any) -> Process:
        """Make a replica with a folder of its own, called by URL."""
        certificates = {"mode": "secret", "host": "127.0.0.1", **changes.pop("certificates", {})}
        admission = {"certificates": certificates, "registration": SAME_PORT, **changes.pop("admission", {})}
        defaults: Document = {"parts": ["admission"], "shutdownDelay": "0s", "admission": admission}
        settings = service_settings(self.server.url, self.folder / name, **{**defaults, **changes})
        return serve_process(settings, clock=clock)

    @asynccontextmanager
    async def replica(
        self, name: str = "a", clock: Clock | None = None, **changes: Any
    ) -> AsyncIterator[Process]:
        """Run a replica until it is ready, and stop it at the end."""
        service = self.make(name, clock, **changes)
        try:
            await service.start()
            await service.wait_ready(PATIENCE)
            yield service
        finally:
            await service.stop()


@asynccontextmanager
async def grounds(folder: Path, *, installed: bool = True) -> AsyncIterator[Grounds]:
    """Run a cluster."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer(crds=CRDS))
        client = Client(Connection.to(Access(server.url)))
        stack.push_async_callback(client.close)
        made = Grounds(server, client, folder)
        if installed:
            await made.install()
        yield made


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait for something to come true; the condition may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.02)
