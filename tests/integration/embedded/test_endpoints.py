"""Endpoints and EndpointSlices on the embedded control plane, on simulated time."""

from typing import Any

from tests.integration.embedded.living import Living, deployment, live, name_of, template

SELECTOR = {"app": "web"}


def service(**spec: Any) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": SELECTOR, "ports": [{"port": 80, "targetPort": "http"}], **spec},
    }


def web(replicas: int) -> dict:
    document = deployment("web", replicas)
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "http", "containerPort": 8080}]
    return document


def ready(cluster: Living) -> list[str]:
    """The addresses of ready endpoints in all slices."""
    return sorted(
        endpoint["addresses"][0]
        for item in cluster.all("endpointslices")
        for endpoint in item.get("endpoints") or []
        if endpoint["conditions"]["ready"]
    )


def addresses(cluster: Living) -> list[str]:
    return sorted(item["status"]["podIP"] for item in cluster.running())


def test_endpoints_follow_the_pods_of_a_service() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", web(3))
        await cluster.create("services", service())
        await cluster.until(lambda: len(ready(cluster)) == 3)
        assert ready(cluster) == addresses(cluster)
        [item] = cluster.all("endpointslices")
        assert item["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
        assert item["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        [subset] = cluster.one("endpoints", "web")["subsets"]
        assert sorted(address["ip"] for address in subset["addresses"]) == addresses(cluster)
        await cluster.patch("deployments", "web/scale", {"spec": {"replicas": 5}})
        await cluster.until(lambda: len(ready(cluster)) == 5)
        await cluster.patch("deployments", "web/scale", {"spec": {"replicas": 0}})
        await cluster.until(lambda: not ready(cluster) and not cluster.one("endpoints", "web").get("subsets"))

    live(story)


def test_pods_that_are_not_ready_are_told_apart() -> None:
    async def story(cluster: Living) -> None:
        document = deployment("web", 1)
        document["spec"]["template"] = template("web", "web:1", {"kubelet.koordpy.dev/ready-after": "30s"})
        await cluster.create("deployments", document)
        await cluster.create("services", service(ports=[{"port": 80}]))
        await cluster.until(lambda: (cluster.one("endpoints", "web") or {}).get("subsets"))
        assert "notReadyAddresses" in cluster.one("endpoints", "web")["subsets"][0]
        assert not ready(cluster)
        await cluster.until(lambda: ready(cluster))
        assert "addresses" in cluster.one("endpoints", "web")["subsets"][0]

    live(story)


def test_many_endpoints_are_divided_into_slices() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("services", service())
        await cluster.create("deployments", web(150))
        await cluster.until(lambda: len(ready(cluster)) == 150)
        sizes = sorted(len(item["endpoints"]) for item in cluster.all("endpointslices"))
        assert sizes == [50, 100]

    live(story)


def test_the_endpoints_of_a_deleted_service_go() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", web(1))
        await cluster.create("services", service())
        await cluster.until(lambda: ready(cluster))
        await cluster.delete("services", "web")
        await cluster.until(lambda: not cluster.all("endpointslices") and not cluster.all("endpoints"))
        assert [name_of(item) for item in cluster.running()]

    live(story)
