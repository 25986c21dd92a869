"""Quotas, nodes and configuration on their way through an API server that calls the service."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data
from koordpy.api.core import ConfigMap, Node
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.errors import ApiError
from koordpy.lib import certificates
from tests.integration.service.stage import Stage, serving, until
from tests.manifests.policies import fail_closed

GATES = {"NodeMutatingWebhook": True, "NodeValidatingWebhook": True, "ConfigMapValidatingWebhook": True}
PREFIX = "quota.scheduling.koordinator.sh/"


async def register(stage: Stage, *files: str) -> None:
    """Register the shipped webhooks that the service serves, at its address."""
    bundle = base64.b64encode(certificates.ca_bundle(stage.certs)).decode()
    for file in files:
        for document in yaml.safe_load_all(data.deploy("webhooks", file).read_text()):
            served = []
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"{stage.url('admission')}{path}", "caBundle": bundle}
                if path in stage.chains:
                    served.append(webhook)
            document = fail_closed({**document, "webhooks": served})
            kind = document["kind"]
            resource = Resource(
                "admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False, ElasticQuota
            )
            await stage.client.create_raw(resource, "", document)


def quota(name: str, minimum: str, parent: str = "") -> dict[str, Any]:
    labels = {f"{PREFIX}parent": parent} if parent else {f"{PREFIX}is-parent": "true"}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"min": {"cpu": minimum}, "max": {"cpu": "20"}},
    }


async def test_quotas_are_defaulted_judged_and_followed(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["admission", "debug"]) as stage:
        await register(stage, "mutating.yaml", "validating.yaml")
        resource = resource_of(ElasticQuota)
        parent = await stage.client.create_raw(resource, "default", quota("a", "10"))
        assert parent["metadata"]["labels"][f"{PREFIX}parent"] == "koordinator-root-quota"
        assert json.loads(parent["metadata"]["annotations"][f"{PREFIX}shared-weight"]) == {"cpu": "20"}
        await stage.client.create_raw(resource, "default", quota("a1", "6", "a"))
        with pytest.raises(ApiError, match="checkMinQuotaSum all brothers'"):
            await stage.client.create_raw(resource, "default", quota("a2", "6", "a"))
        with pytest.raises(ApiError, match="quota a has 1 child quotas"):
            await stage.client.delete(ElasticQuota, "default", "a")
        await stage.client.delete(ElasticQuota, "default", "a1")
        quotas = stage.process.cluster.store(ElasticQuota)
        await until(lambda: [quota.metadata.name for quota in quotas] == ["a"])
        await stage.client.create_raw(resource, "default", quota("a2", "6", "a"))
        shown = (await stage.get("/elasticQuota")).json()
        assert shown["quotaHierarchyInfo"] == {"a": ["a2"], "a2": [], "koordinator-root-quota": ["a"]}
        assert shown["quotaInfoMap"]["a2"] == {
            "name": "a2",
            "parentName": "a",
            "isParent": False,
            "allowLentResource": True,
            "max": {"cpu": "20"},
            "min": {"cpu": "6"},
        }


async def test_quotas_are_not_shown_where_nothing_follows_them(tmp_path: Path) -> None:
    gates = {"ElasticValidatingWebhook": False}
    async with serving(tmp_path, parts=["admission", "debug"], featureGates=gates) as stage:
        assert (await stage.get("/elasticQuota")).status_code == 404


async def test_configuration_and_nodes_are_judged_by_each_other(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["admission"], featureGates=GATES) as stage:
        await register(stage, "mutating.yaml", "validating.yaml")
        strategies = [
            {"name": name, "nodeSelector": {"matchLabels": {name: "yes"}}, "cpuBurstPercent": 100}
            for name in ("x", "y")
        ]
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "slo-controller-config",
                "namespace": "koordinator-system",
                "labels": {"koordinator.sh/configmap-type": "slo-controller-config"},
            },
            "data": {"cpu-burst-config": json.dumps({"nodeStrategies": strategies})},
        }
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
        await stage.client.create_raw(
            Resource("", "v1", "namespaces", "Namespace", False, Node), "", namespace
        )
        broken = {**config, "data": {"cpu-burst-config": "bad"}}
        with pytest.raises(ApiError, match="ParseConfigFail"):
            await stage.client.create_raw(resource_of(ConfigMap), "koordinator-system", broken)
        await stage.client.create_raw(resource_of(ConfigMap), "koordinator-system", config)
        await stage.add_node("n0", labels={"x": "yes"})
        await until(lambda: len(stage.process.cluster.store(ConfigMap)) > 0)
        with pytest.raises(ApiError, match="ExistNodeConfict"):
            await stage.client.patch(Node, "", "n0", {"metadata": {"labels": {"y": "yes"}}})


async def test_reported_resources_are_amplified(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["admission"], featureGates=GATES) as stage:
        await register(stage, "mutating.yaml")
        ratio = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.5}'}
        await stage.add_node("n0", annotations=ratio)
        await stage.client.patch_status(Node, "", "n0", {"status": {"allocatable": {"cpu": "3"}}})
        node = await stage.client.get(Node, "", "n0")
        assert node.status.allocatable["cpu"] == "4500m"
