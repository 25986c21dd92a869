"""Pods of a quota on kube-apiserver, judged by two services that charge the same quota."""

import asyncio
import base64
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from koordpy import settings
from koordpy.api.core import Namespace, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.cluster.errors import ApiError
from koordpy.compose.process import Process
from koordpy.lib import certificates
from tests.e2e.controlplane.plane import ControlPlane
from tests.eventually import PATIENCE
from tests.processes import serve_process

CHILD_REQUEST = "quota.scheduling.koordinator.sh/child-request"
ROOM, PODS = 30, 60
QUOTAS = resource_of(ElasticQuota)
CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    KubeObject,
)


async def open_door(plane: ControlPlane, client: Client, folder: Path, namespace: str) -> Process:
    """Start a service that judges the pods of a namespace."""
    handler = {"name": "validate-pod.EvaluateQuota", "args": {"conflictFreshGet": True, "maxRetries": 10}}
    document = {
        "client": {"kubeconfig": str(plane.kubeconfig)},
        "featureGates": {"EnableQuotaAdmission": True},
        "parts": ["admission"],
        "admission": {
            "bindAddress": "127.0.0.1",
            "port": 0,
            "certDir": str(folder / namespace),
            "enabled": [handler],
        },
    }
    service = serve_process(settings.load(None, document))
    await service.start()
    await service.wait_ready(PATIENCE)
    webhook = {
        "name": "vpod.koordinator.sh",
        "clientConfig": {
            "url": f"{service.listeners['admission'].url}/validate-pod",
            "caBundle": base64.b64encode(certificates.ca_bundle(folder / namespace)).decode(),
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    configuration = {
        "apiVersion": CONFIGURATIONS.api_version,
        "kind": CONFIGURATIONS.kind,
        "metadata": {"name": namespace},
        "webhooks": [webhook],
    }
    await client.create_raw(CONFIGURATIONS, "", configuration)
    return service


async def create(client: Client, name: str, namespace: str) -> str:
    """Create a pod of the quota; return why it was refused, empty if it was not."""
    labels = {"quota.scheduling.koordinator.sh/name": "team"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container]},
    }
    try:
        await client.create_raw(resource_of(Pod), namespace, pod)
    except ApiError as error:
        return error.message
    return ""


async def tell(plane: ControlPlane, folder: Path) -> None:
    async with AsyncExitStack() as stack:
        client = Client(Connection.from_kubeconfig(str(plane.kubeconfig)))
        stack.push_async_callback(client.close)
        namespaces = ("quota-a", "quota-b")
        for namespace in namespaces:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            stack.push_async_callback(client.delete, Namespace, "", namespace)
        quota = {
            "apiVersion": QUOTAS.api_version,
            "kind": QUOTAS.kind,
            "metadata": {"name": "team", "namespace": "quota-a"},
            "spec": {"max": {"cpu": str(ROOM)}},
        }
        await client.create_raw(QUOTAS, "quota-a", quota)
        for namespace in namespaces:
            service = await open_door(plane, client, folder, namespace)
            stack.push_async_callback(service.stop)
            stack.push_async_callback(client.delete_raw, CONFIGURATIONS, "", namespace)
        asked = [create(client, f"p{index}", namespaces[index % 2]) for index in range(PODS)]
        refusals = [refusal for refusal in await asyncio.gather(*asked) if refusal]
        pods = [pod for name in namespaces for pod in await client.list_all(Pod, name)]
        now = await client.get(ElasticQuota, "quota-a", "team")
        for pod in pods:
            meta = pod.metadata
            await client.delete(Pod, meta.namespace, meta.name, grace_period_seconds=0)
        assert len(pods) == PODS - len(refusals)
        assert json.loads(now.metadata.annotations[CHILD_REQUEST]) == {"cpu": str(len(pods))}
        assert 0 < len(pods) <= ROOM
        for refusal in refusals:
            assert "exceeded quota: quota-a/team, requested: cpu=1" in refusal or "been modified" in refusal


def test_two_services_admit_what_a_quota_has_room_for(control_plane: ControlPlane, tmp_path: Path) -> None:
    control_plane.install_crds()
    asyncio.run(tell(control_plane, tmp_path))
