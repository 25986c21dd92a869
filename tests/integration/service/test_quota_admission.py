"""Pods that an API server has judged by services, each of which charges the same quotas."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from koordpy.api.core import Namespace, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.errors import ApiError
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Fault
from koordpy.lib import certificates
from tests.integration.service.stage import CRDS, Document, Stage, pod_document, serving, until

PREFIX = "quota.scheduling.koordinator.sh/"
GATES = {"EnableQuotaAdmission": True}
HANDLER = {"name": "validate-pod.EvaluateQuota", "args": {"conflictFreshGet": True, "maxRetries": 10}}
CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    KubeObject,
)


async def register(stage: Stage, namespace: str) -> None:
    """Have the pods of a namespace judged by a service."""
    bundle = base64.b64encode(certificates.ca_bundle(stage.certs)).decode()
    webhook = {
        "name": "vpod.koordinator.sh",
        "clientConfig": {"url": f"{stage.url('admission')}/validate-pod", "caBundle": bundle},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["pods"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    document = {
        "apiVersion": CONFIGURATIONS.api_version,
        "kind": CONFIGURATIONS.kind,
        "metadata": {"name": f"koordinator-{namespace}"},
        "webhooks": [webhook],
    }
    await stage.client.create_raw(CONFIGURATIONS, "", document)


async def add_quota(stage: Stage, name: str, cpu: str) -> None:
    resource = resource_of(ElasticQuota)
    quota = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"max": {"cpu": cpu}},
    }
    await stage.client.create_raw(resource, "default", quota)


async def used(stage: Stage, name: str) -> dict[str, str]:
    quota = await stage.client.get(ElasticQuota, "default", name)
    amounts: dict[str, str] = json.loads(quota.metadata.annotations.get(f"{PREFIX}child-request", "{}"))
    return amounts


async def create(stage: Stage, pod: Document) -> str:
    """Create a pod; return why it was refused, empty if it was not."""
    try:
        await stage.client.create_raw(resource_of(Pod), pod["metadata"]["namespace"], pod)
    except ApiError as error:
        return error.message
    return ""


def pod_of(quota: str, name: str, namespace: str) -> Document:
    return pod_document(name, "1", namespace, labels={f"{PREFIX}name": quota})


async def test_two_services_share_a_quota(tmp_path: Path) -> None:
    server = ApiServer(crds=CRDS)
    changes: Any = {"featureGates": GATES, "admission": {"enabled": [HANDLER]}}
    async with (
        serving(tmp_path / "a", server=server, **changes) as one,
        serving(tmp_path / "b", server=server, **changes) as other,
    ):
        await add_quota(one, "team", "50")
        for stage, namespace in ((one, "a"), (other, "b")):
            await stage.client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            await register(stage, namespace)
            quotas = stage.process.cluster.store(ElasticQuota)
            await until(lambda quotas=quotas: len(quotas) == 1)  # type: ignore[misc]
        pods = [pod_of("team", f"p{i}", "ab"[i % 2]) for i in range(80)]
        refusals = await asyncio.gather(*(create(one, pod) for pod in pods))
        admitted = len(await one.client.list_all(Pod))
        assert admitted == sum(not refusal for refusal in refusals)
        assert 0 < admitted <= 50
        assert await used(one, "team") == {"cpu": str(admitted)}
        for refusal in filter(None, refusals):
            assert "exceeded quota: default/team, requested: cpu=1" in refusal or "been modified" in refusal
        metrics = (await one.get("/metrics")).text
        assert 'plugin_name="EvaluateQuota",status="allowed"' in metrics
        assert 'name="admission_quota_controller"} 0.0' in metrics.partition("\nworkqueue_depth{")[2]
    await server.stop()


async def test_a_service_that_stops_answers_the_pods_that_wait(tmp_path: Path) -> None:
    async with serving(tmp_path, featureGates=GATES, parts=["admission"]) as stage:
        await add_quota(stage, "team", "1")
        await register(stage, "default")
        await until(lambda: len(stage.process.cluster.store(ElasticQuota)) == 1)
        writing = asyncio.Event()

        def fault(method: str, path: str) -> Fault | None:
            if method == "PATCH" and "/elasticquotas/" in path:
                writing.set()
                return Fault(delay=0.5)
            return None

        stage.server.faults = fault
        creating = asyncio.create_task(create(stage, pod_of("team", "p", "default")))
        await writing.wait()
        await stage.process.stop()
        assert await creating == ""
        assert await used(stage, "team") == {"cpu": "1"}


async def test_a_pod_that_a_later_check_refuses_stays_charged(tmp_path: Path) -> None:
    gates = {**GATES, "ValidatePodDeviceResource": True}
    async with serving(tmp_path, featureGates=gates, parts=["admission"]) as stage:
        await add_quota(stage, "team", "5")
        await register(stage, "default")
        await until(lambda: len(stage.process.cluster.store(ElasticQuota)) == 1)
        pod = pod_of("team", "p", "default")
        gpu = {"koordinator.sh/gpu": "150"}
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", **gpu}, "limits": gpu}
        assert "percentage of 100" in await create(stage, pod)
        assert await used(stage, "team") == {"cpu": "1"}
