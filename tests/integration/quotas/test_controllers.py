"""The controllers of the ElasticQuota plugin in `koordpy serve`, on an embedded API server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.core import Namespace, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.embedded.apiserver import ApiServer
from koordpy_plugins.scheduling.elasticquota.controllers import controller
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS, pod_document, serving

PREFIX = "quota.scheduling.koordinator.sh/"
SYSTEM = "koordinator-system"


def profile(folder: Path, **args: Any) -> dict[str, Any]:
    """Return the changes of settings for an extender with the plugin, which leads."""
    plugins = {"multiPoint": {"enabled": [{"name": "ElasticQuota"}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": plugins,
                "pluginConfig": [{"name": "ElasticQuota", "args": args}],
            }
        ],
    }
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    return {"extender": {"schedulerConfig": str(file), "leaderElect": False}, "parts": ["extender", "debug"]}


async def namespaces(client: Client) -> None:
    resource = resource_of(Namespace)
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    await client.create_raw(resource, "", document)


async def make_quota(client: Client, name: str, **spec: Any) -> None:
    resource = resource_of(ElasticQuota)
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {f"{PREFIX}is-parent": "false", f"{PREFIX}parent": "koordinator-root-quota"},
        },
        "spec": {"max": {"cpu": "10", "memory": "10Gi"}, "min": {"cpu": "1", "memory": "1Gi"}, **spec},
    }
    await client.create_raw(resource, "default", document)


async def make_pod(client: Client, name: str, quota: str, cpu: str = "2", node: str = "n0") -> None:
    document = pod_document(name, cpu, labels={f"{PREFIX}name": quota})
    document["spec"]["nodeName"] = node
    await client.create_raw(resource_of(Pod), "default", document)


async def seen(
    client: Client, name: str, condition: Callable[[ElasticQuota], bool], namespace: str = "default"
) -> ElasticQuota:
    """Wait until a quota is there and as expected."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                found = await client.get(ElasticQuota, namespace, name)
            except NotFound:
                pass
            else:
                if condition(found):
                    return found
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "STATUS_INTERVAL", 0.05)
    monkeypatch.setattr(controller, "RUNTIME_INTERVAL", 0.05)


async def test_the_status_of_a_quota_follows_its_pods(tmp_path: Path) -> None:
    async with serving(tmp_path, **profile(tmp_path)) as stage:
        await namespaces(stage.client)
        await stage.add_node("n0", cpu="8")
        await make_quota(stage.client, "a")
        await make_pod(stage.client, "p", "a")
        found = await seen(stage.client, "a", lambda quota: quota.status.used.get("cpu") == "2")
        assert found.metadata.annotations[f"{PREFIX}child-request"] == '{"cpu":"2","memory":"256Mi"}'
        await seen(
            stage.client,
            "a",
            lambda quota: '"cpu":"2"' in quota.metadata.annotations.get(f"{PREFIX}runtime", ""),
        )
        await stage.client.delete(Pod, "default", "p", grace_period_seconds=0)
        await seen(stage.client, "a", lambda quota: quota.status.used.get("cpu") == "0")


async def test_the_root_system_and_default_quotas_are_created_once(tmp_path: Path) -> None:
    server = ApiServer(port=free_port(), crds=CRDS)
    await server.start()
    try:
        given = profile(tmp_path, defaultQuotaGroupMax={"cpu": "3"})
        async with serving(tmp_path, server=server, **given) as stage:
            await namespaces(stage.client)
            made = await seen(stage.client, "koordinator-default-quota", lambda _: True, SYSTEM)
            assert made.spec.max == {"cpu": "3"}
            await seen(stage.client, "koordinator-system-quota", lambda _: True, SYSTEM)
            root = await seen(stage.client, "koordinator-root-quota", lambda _: True, SYSTEM)
            assert root.metadata.labels[f"{PREFIX}is-parent"] == "true"
            uid = made.metadata.uid
        async with serving(tmp_path, server=server, **profile(tmp_path)) as stage:
            await make_quota(stage.client, "a")
            await make_pod(stage.client, "p", "a")
            await seen(stage.client, "a", lambda quota: quota.status.used.get("cpu") == "2")
            kept = await stage.client.get(ElasticQuota, SYSTEM, "koordinator-default-quota")
            assert (kept.metadata.uid, kept.spec.max) == (uid, {"cpu": "3"})
    finally:
        await server.stop()


async def test_a_process_that_takes_over_corrects_what_is_stale(tmp_path: Path) -> None:
    server = ApiServer(port=free_port(), crds=CRDS)
    await server.start()
    try:
        async with serving(tmp_path, server=server, **profile(tmp_path)) as stage:
            await namespaces(stage.client)
            await make_quota(stage.client, "a")
            await make_pod(stage.client, "p", "a")
            await seen(stage.client, "a", lambda quota: quota.status.used.get("cpu") == "2")
            stale = {
                "metadata": {"annotations": {f"{PREFIX}child-request": '{"cpu":"9"}'}},
                "status": {"used": {"cpu": "7", "example.com/gone": "1"}},
            }
        async with serving(tmp_path, server=server, **profile(tmp_path)) as stage:
            client = stage.client
            await client.patch(ElasticQuota, "default", "a", stale)
            found = await seen(client, "a", lambda quota: quota.status.used.get("cpu") == "2")
            assert "example.com/gone" not in found.status.used
            assert found.metadata.annotations[f"{PREFIX}child-request"] == '{"cpu":"2","memory":"256Mi"}'
    finally:
        await server.stop()


async def test_pods_of_a_quota_that_uses_too_much_are_evicted(tmp_path: Path) -> None:
    given = profile(
        tmp_path,
        monitorAllQuotas=True,
        delayEvictTime="0s",
        revokePodInterval="50ms",
        enableRuntimeQuota=True,
    )
    async with serving(tmp_path, **given) as stage:
        client = stage.client
        await namespaces(client)
        await stage.add_node("n0", cpu="4")
        await make_quota(client, "a", min={"cpu": "1"}, max={"cpu": "10"})
        await make_pod(client, "first", "a", cpu="2")
        await make_pod(client, "second", "a", cpu="2")
        await seen(client, "a", lambda quota: quota.status.used.get("cpu") == "4")
        assert len(await client.list_all(Pod)) == 2
        await client.patch(ElasticQuota, "default", "a", {"spec": {"max": {"cpu": "2"}}})
        async with asyncio.timeout(PATIENCE):
            while len(await pods_that_stay(client)) > 1:
                await asyncio.sleep(0.02)
        await seen(client, "a", lambda quota: quota.status.used.get("cpu") == "2")
        assert len(await pods_that_stay(client)) == 1


async def pods_that_stay(client: Client) -> list[Pod]:
    """Return the pods that are not being deleted; those that are, are stopped as by their kubelet."""
    found = await client.list_all(Pod)
    for pod in found:
        if pod.metadata.deletion_timestamp:
            await client.delete(Pod, pod.metadata.namespace, pod.metadata.name, grace_period_seconds=0)
    return [pod for pod in found if not pod.metadata.deletion_timestamp]


async def test_the_rest_api_shows_quotas_with_their_pods(tmp_path: Path) -> None:
    async with serving(tmp_path, **profile(tmp_path)) as stage:
        await make_quota(stage.client, "a")
        await make_pod(stage.client, "p", "a")
        await seen(stage.client, "a", lambda quota: quota.status.used.get("cpu") == "2")
        base = f"{stage.url('debug')}/apis/v1/plugins/ElasticQuota/quotas"
        found = (await stage.http.get(f"{base}/a?includePods=true")).json()
        assert found["podCache"] == {
            "default/p": {"isAssigned": True, "resource": {"cpu": "2", "memory": "256Mi"}}
        }
        assert (found["tree"], found["parentName"]) == ("", "koordinator-root-quota")
        assert "a" in (await stage.http.get(base)).json()
        missing = await stage.http.get(f"{base}/nobody")
        assert (missing.status_code, missing.json()["message"]) == (404, "cannot find quota nobody")
        metrics = (await stage.http.get(f"{stage.url('debug')}/metrics")).text
        assert 'scheduler_elastic_quota_status{field="used",is_parent="false",name="a"' in metrics
