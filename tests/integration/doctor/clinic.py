"""A cluster in which all is well, for tests to break one thing of it."""

import base64
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from koordpy import data, settings
from koordpy.api.core import (
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    Secret,
    Service,
    ValidatingWebhookConfiguration,
)
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import KubeObject, format_micro_time, format_time
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.doctor.examination import Question, examine
from koordpy.doctor.finding import Finding, Report, State
from koordpy.doctor.installation import parts_of
from koordpy.embedded.apiserver import ApiServer
from koordpy.features.feature import Part
from koordpy.lib import certificates

Document = dict[str, Any]

SYSTEM = "koordinator-system"
SERVICE = "koordinator-webhook-service"
SECRET = "koordinator-webhook-certs"
NODES = ("n0", "n1")


def shipped(*parts: str) -> list[Document]:
    """Return the documents of a file in deploy/."""
    return data.documents(*parts)


class Clinic:
    """The cluster, the settings that koordpy has there, and the files of kube-scheduler."""

    def __init__(self, server: ApiServer, client: Client, folder: Path, denied: set[str]) -> None:
        self.server, self.client, self.folder = server, client, folder
        self.denied = denied
        """What access reviews say no to, as verb and resource."""
        self.settings: Document = {
            "client": {"server": server.url},
            "admission": {"certificates": {"mode": "secret"}},
        }
        [self.scheduler] = shipped("scheduler", "kube-scheduler-config.yaml")
        self.parts: tuple[Part, ...] | None = None
        self.user = ""

    # --- the cluster -----------------------------------------------------------------------------

    async def create(self, type_: type[KubeObject], document: Document) -> Document:
        """Create an object, and its status if it has one."""
        resource = resource_of(type_)
        namespace = document["metadata"].get("namespace", "")
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        made = await self.client.create_raw(resource, namespace, whole)
        if "status" in document:
            patch = {"status": document["status"]}
            await self.client.patch_status(type_, namespace, document["metadata"]["name"], patch)
        return made

    async def edit(
        self, type_: type[KubeObject], namespace: str, name: str, change: Callable[[Document], object]
    ) -> None:
        """Change an object in place."""
        resource = resource_of(type_)
        document = await self.client.get_raw(resource, namespace, name)
        change(document)
        await self.client.update_raw(resource, namespace, name, document)

    async def settle(self) -> None:
        """Install everything that the features which are on by default need."""
        labels = {"control-plane": "koordinator"}  # its pods go without the webhooks
        await self.create(Namespace, {"metadata": {"name": SYSTEM, "labels": labels}})
        now = datetime.now(UTC)
        authority = certificates.make_ca("test", now)
        served = certificates.issue(authority, [f"{SERVICE}.{SYSTEM}.svc"], now)
        files = {"ca-cert.pem": authority.cert, "tls.crt": served.cert, "tls.key": served.key}
        encoded = {name: base64.b64encode(pem).decode() for name, pem in files.items()}
        await self.create(Secret, {"metadata": {"name": SECRET, "namespace": SYSTEM}, "data": encoded})
        bundle = base64.b64encode(authority.cert).decode()
        for type_, file in (
            (MutatingWebhookConfiguration, "mutating.yaml"),
            (ValidatingWebhookConfiguration, "validating.yaml"),
        ):
            [document] = shipped("webhooks", file)
            for entry in document["webhooks"]:
                entry["clientConfig"]["caBundle"] = bundle
            await self.create(type_, document)
        [service] = shipped("webhooks", "service.yaml")
        await self.create(Service, service)
        await self.create(Pod, webhook_pod())
        for document in shipped("priorityclasses", "koordinator.yaml"):
            await self.create(PriorityClass, document)
        for name in NODES:
            await self.create(Node, {"metadata": {"name": name}})
            await self.create(NodeMetric, metric(name, now))
        # They are not renewed.
        await self.create(Lease, lease("kube-system", "kube-scheduler", now, lasting=3600))
        await self.create(Lease, lease(SYSTEM, "koord-scheduler", now, lasting=3600))

    # --- the examination -------------------------------------------------------------------------

    async def examine(self) -> Report:
        """Examine with the files and settings as they are now."""
        file = self.folder / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump(self.scheduler))
        read = settings.load(None, copy.deepcopy(self.settings))
        parts = parts_of(read) if self.parts is None else self.parts
        return await examine(self.client, Question(read, parts, file, self.user))

    async def problems(self) -> list[Finding]:
        """Return what is wrong."""
        report = await self.examine()
        return [finding for finding in report.findings if finding.state is State.PROBLEM]

    async def problem(self) -> Finding:
        """Return the one thing that is wrong."""
        [found] = await self.problems()
        assert found.fix
        return found


def webhook_pod(ready: str = "True") -> Document:
    """Return a pod behind the webhooks' service."""
    labels = {"koord-app": "koord-manager"}
    return {
        "metadata": {"name": "koordpy-webhooks-0", "namespace": SYSTEM, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def metric(name: str, updated: datetime | None) -> Document:
    """Return a node's NodeMetric, last updated then."""
    status = {} if updated is None else {"updateTime": format_time(updated), "nodeMetric": {"nodeUsage": {}}}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def lease(namespace: str, name: str, renewed: datetime, holder: str = "one", lasting: int = 15) -> Document:
    """Return a Lease of so many seconds; it is not renewed."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": lasting,
        "renewTime": format_micro_time(renewed),
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def ago(seconds: float) -> datetime:
    """Return a time in the past."""
    return datetime.now(UTC) - timedelta(seconds=seconds)


@asynccontextmanager
async def clinic(folder: Path, *, healthy: bool = True, **options: Any) -> AsyncIterator[Clinic]:
    """Open a cluster; `options` are the API server's."""
    denied: set[str] = set()

    def is_allowed(spec: Document) -> bool:
        asked = spec["resourceAttributes"]
        return f"{asked['verb']} {asked['resource']}" not in denied

    defaults = {"crds": [data.deploy("crds")], "is_allowed": is_allowed}
    async with ApiServer(**{**defaults, **options}) as server:
        client = Client(Connection.to(Access(server.url)))
        made = Clinic(server, client, folder, denied)
        try:
            if healthy:
                await made.settle()
            yield made
        finally:
            await client.close()
