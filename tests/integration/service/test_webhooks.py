"""The webhook configurations that we ship, registered on an API server that calls a running service."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data
from koordpy.api.core import ConfigMap, Pod
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.errors import ApiError
from koordpy.lib import certificates
from tests.integration.service.stage import Document, Stage, pod_document, serving, until
from tests.manifests.policies import fail_closed

RESERVATIONS = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "reservations", "Reservation", False, KubeObject
)
QOS = "koordinator.sh/qosClass"
GATES = {
    "ReservationMutatingWebhook": True,
    "BindingAdmissionWebhook": True,
    "EnablePodEnhancedValidator": True,
}


async def register(stage: Stage, *files: str) -> None:
    """Create the webhooks of files that the service serves, aimed at it."""
    bundle = base64.b64encode(certificates.ca_bundle(stage.certs)).decode()
    for file in files:
        for document in yaml.safe_load_all((data.deploy("webhooks") / file).read_text()):
            served = []
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": stage.url("admission") + path, "caBundle": bundle}
                if path in stage.chains:
                    served.append(webhook)
            document = fail_closed({**document, "webhooks": served})
            kind = document["kind"]
            plural = f"{kind.lower()}s"
            resource = Resource("admissionregistration.k8s.io", "v1", plural, kind, False, KubeObject)
            await stage.client.create_raw(resource, "", document)


async def create(stage: Stage, document: Document) -> Document:
    return await stage.client.create_raw(resource_of(Pod), document["metadata"]["namespace"], document)


async def test_pods_are_validated_when_they_are_created_and_changed(tmp_path: Path) -> None:
    async with serving(tmp_path, featureGates=GATES, parts=["admission"]) as stage:
        await register(stage, "validating.yaml")
        with pytest.raises(ApiError, match="qosClass=BE and priorityClass= cannot be used"):
            await create(stage, pod_document("refused", labels={QOS: "BE"}))
        await create(stage, pod_document("allowed", labels={QOS: "LS"}))
        patch = {"metadata": {"labels": {QOS: "SYSTEM"}}}
        with pytest.raises(ApiError, match="field is immutable"):
            await stage.client.patch(Pod, "default", "allowed", patch)
        await stage.client.patch(Pod, "default", "allowed", {"metadata": {"labels": {"other": "1"}}})
        await stage.delete_pod("allowed")


async def test_required_labels_follow_the_config_map(tmp_path: Path) -> None:
    handler = {
        "name": "validate-pod.EnhancedValidation",
        "args": {"configNamespace": "default", "configName": "labels"},
    }
    async with serving(tmp_path, featureGates=GATES, admission={"enabled": [handler]}) as stage:
        await register(stage, "validating.yaml")
        await create(stage, pod_document("before"))
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "labels", "namespace": "default"},
            "data": {"enable": "true", "rules": '[{"name":"owner","requiredLabels":["team"]}]'},
        }
        await stage.client.create_raw(resource_of(ConfigMap), "default", config)
        await until(lambda: len(stage.process.cluster.store(ConfigMap)) == 1)
        with pytest.raises(ApiError, match="required label 'team' is missing"):
            await create(stage, pod_document("after"))
        await create(stage, pod_document("labelled", labels={"team": "a"}))


async def test_only_listed_users_may_bind(tmp_path: Path) -> None:
    handler = {
        "name": "validate-pod-binding.BindingAdmission",
        "args": {"userName": "kube-scheduler", "namespaces": "default"},
    }
    async with serving(tmp_path, featureGates=GATES, admission={"enabled": [handler]}) as stage:
        await register(stage, "validating.yaml")
        await stage.add_node("n0")
        refused = await stage.add_pod("refused")
        assert "binding denied: username is not in the allowed list" in await stage.bind(refused, "n0")
        free = await stage.add_pod("free", labels={"koordinator.sh/binding-admission-bypass": ""})
        assert await stage.bind(free, "n0") == ""


async def test_reservations_get_what_profiles_say(tmp_path: Path) -> None:
    profile: dict[str, Any] = {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "all"},
        "spec": {"labels": {"by": "profile"}, "schedulerName": "koord-scheduler"},
    }
    reservation = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": "r"},
        "spec": {
            "owners": [{"object": {"name": "p", "namespace": "default"}}],
            "template": {"spec": pod_document("p")["spec"]},
            "ttl": "1h",
        },
    }
    async with serving(tmp_path, featureGates=GATES, parts=["admission"]) as stage:
        await register(stage, "mutating.yaml")
        await stage.client.create_raw(resource_of(ClusterColocationProfile), "", profile)
        await until(lambda: len(stage.process.cluster.store(ClusterColocationProfile)) == 1)
        made = await stage.client.create_raw(RESERVATIONS, "", reservation)
        assert made["metadata"]["labels"] == {"by": "profile"}
        assert made["spec"]["template"]["spec"]["schedulerName"] == "koord-scheduler"
