"""metrics.k8s.io of the embedded API server: what `kubectl top` shows, from NodeMetrics."""

import msgspec
import pytest

from koordpy import data
from koordpy.cluster.errors import ApiError, NotFound
from tests.integration.embedded.living import Living, live, pod

GROUP = "/apis/metrics.k8s.io/v1beta1"
CRDS = sorted(data.deploy("crds").glob("*nodemetrics*.yaml"))


async def read(cluster: Living, path: str) -> dict:
    found: dict = msgspec.json.decode((await cluster.client.send("GET", GROUP + path)).body)
    return found


async def report(cluster: Living, node: str, cpu: str, pods: dict[str, str]) -> None:
    """Report as a koordlet does."""
    metric = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": node},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 20}},
    }
    await cluster.create("nodemetrics", metric)
    usage = {
        "updateTime": "2026-01-01T00:00:07Z",
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}},
        "podsMetric": [
            {"namespace": "default", "name": name, "podUsage": {"resources": {"cpu": used, "memory": "5Mi"}}}
            for name, used in pods.items()
        ],
    }
    await cluster.patch("nodemetrics", f"{node}/status", {"status": usage})


def test_usage_has_the_form_of_metrics_server() -> None:
    async def story(cluster: Living) -> None:
        two = [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]
        await cluster.create("pods", pod("p", containers=two))
        await report(cluster, "a", "1500m", {"p": "301m", "unknown": "1"})
        assert await read(cluster, "/nodes/a") == {
            "kind": "NodeMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {
                "name": "a",
                "creationTimestamp": "2026-01-01T00:00:07Z",
                "labels": {"kubernetes.io/hostname": "a"},
            },
            "timestamp": "2026-01-01T00:00:07Z",
            "window": "20s",
            "usage": {"cpu": "1500000000n", "memory": "1048576Ki"},
        }
        listed = await read(cluster, "/namespaces/default/pods")
        assert listed["kind"] == "PodMetricsList"
        [found] = listed["items"]
        assert found["containers"] == [
            {"name": "c", "usage": {"cpu": "150500000n", "memory": "2560Ki"}},
            {"name": "d", "usage": {"cpu": "150500000n", "memory": "2560Ki"}},
        ]

    live(story, crds=CRDS, metrics=True)


def test_kubectl_finds_nodemetrics_among_koordinators_resources_first() -> None:
    async def story(cluster: Living) -> None:
        listed = msgspec.json.decode((await cluster.client.send("GET", "/apis")).body)
        names = [group["name"] for group in listed["groups"]]
        assert names.index("slo.koordinator.sh") < names.index("metrics.k8s.io")

    live(story, crds=CRDS, metrics=True)


def test_usage_is_selected_by_the_labels_of_nodes_and_by_namespace() -> None:
    async def story(cluster: Living) -> None:
        for node in ("a", "b"):
            await report(cluster, node, "1", {})
        selected = await read(cluster, "/nodes?labelSelector=kubernetes.io/hostname%3Db")
        assert [item["metadata"]["name"] for item in selected["items"]] == ["b"]
        assert (await read(cluster, "/namespaces/other/pods"))["items"] == []
        assert len((await read(cluster, "/nodes"))["items"]) == 2

    live(story, crds=CRDS, metrics=True)


def test_usage_is_only_read() -> None:
    async def story(cluster: Living) -> None:
        with pytest.raises(NotFound):
            await read(cluster, "/nodes/a")
        for method, path in (
            ("POST", "/nodes"),
            ("DELETE", "/nodes"),
            ("DELETE", "/nodes/a"),
            ("GET", "/nodes?watch=1"),
        ):
            with pytest.raises(ApiError) as refused:
                await cluster.client.send(method, GROUP + path, b"{}" if method == "POST" else b"")
            assert refused.value.status == 405

    live(story, crds=CRDS, metrics=True)


def test_the_group_is_absent_unless_it_is_wanted() -> None:
    async def story(cluster: Living) -> None:
        with pytest.raises(NotFound):
            await read(cluster, "/nodes")

    live(story, crds=CRDS)
