"""Scheduling by the nodes of other pods: affinity, anti-affinity, spreading. And nodes with the image."""

import asyncio
from collections import Counter
from typing import Any

from koordpy.api.core import Node, Service
from koordpy.api.scheme import resource_of
from tests.eventually import PATIENCE
from tests.integration.scheduler.stage import NAMESPACE, Stage

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"matchLabels": {"app": "web"}}


def affinity(kind: str, key: str = HOST, **more: Any) -> dict[str, Any]:
    """A required term for pods of `app: web`."""
    term = {"labelSelector": WEB, "topologyKey": key, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def preference(kind: str, key: str = HOST) -> dict[str, Any]:
    """A preferred term of full weight for pods of `app: web`."""
    term = {"labelSelector": WEB, "topologyKey": key}
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def spread(key: str, **more: Any) -> dict[str, Any]:
    """A constraint for pods of `app: web`."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        **more,
    }


async def add_web(stage: Stage, name: str, **spec: Any) -> None:
    await stage.add_pod(name, labels={"app": "web"}, **spec)


async def test_pods_that_keep_apart_get_a_node_each_and_the_next_one_waits(stage: Stage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.start()
    apart = affinity("podAntiAffinity")
    for name in ("a", "b"):
        await add_web(stage, name, affinity=apart)
    assert {await stage.node_of("a"), await stage.node_of("b")} == {"n1", "n2"}
    await add_web(stage, "c", affinity=apart)
    message = await stage.refusal("c")
    assert message.startswith("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
    node = await stage.node_of("a")
    await stage.delete_pod("a")
    assert await stage.node_of("c") == node


async def test_a_pod_that_runs_keeps_others_away(stage: Stage) -> None:
    await stage.add_node("n1", labels={ZONE: "a"})
    await stage.add_node("n2", labels={ZONE: "a"})
    await stage.add_pod("alone", affinity=affinity("podAntiAffinity", ZONE))
    await stage.start()
    await stage.node_of("alone")
    await add_web(stage, "web")
    message = await stage.refusal("web")
    assert message.startswith(
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    )
    await stage.add_pod("other", labels={"app": "other"})
    assert await stage.node_of("other") in ("n1", "n2")


async def test_a_pod_waits_for_the_one_that_it_wants_to_be_near(stage: Stage) -> None:
    await stage.add_node("n1", cpu="4", labels={ZONE: "a"})
    await stage.add_node("n2", cpu="4", labels={ZONE: "b"})
    await stage.add_node("n3", cpu="2", labels={ZONE: "a"})
    await stage.start()
    await stage.add_pod("near", cpu="3", affinity=affinity("podAffinity", ZONE))
    message = await stage.refusal("near")
    assert message.startswith("0/3 nodes are available: ")
    assert "2 node(s) didn't match pod affinity rules" in message
    await add_web(stage, "web", nodeSelector={HOST: "n3"})
    assert await stage.node_of("web") == "n3"
    assert await stage.node_of("near") == "n1"


async def test_the_first_of_pods_that_want_to_be_together_goes_anywhere(stage: Stage) -> None:
    for name in ("n1", "n2", "n3"):
        await stage.add_node(name)
    await stage.start()
    for name in ("a", "b", "c"):
        await add_web(stage, name, affinity=affinity("podAffinity"))
    assert len({pod.spec.node_name for pod in await stage.all_bound(3)}) == 1


async def test_terms_reach_into_the_namespaces_that_a_selector_finds(stage: Stage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.start()
    await add_web(stage, "web", nodeSelector={HOST: "n1"})
    await stage.node_of("web")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    await stage.add_pod("a", affinity=affinity("podAntiAffinity", namespaceSelector=selector))
    assert await stage.node_of("a") == "n2"
    nobody = {"matchLabels": {"kubernetes.io/metadata.name": "nobody"}}
    await stage.add_pod("b", affinity=affinity("podAffinity", namespaceSelector=nobody))
    assert "2 node(s) didn't match pod affinity rules" in await stage.refusal("b")


async def test_preferences_draw_pods_together_and_keep_them_apart(stage: Stage) -> None:
    await stage.add_node("big", cpu="32")
    await stage.add_node("small", cpu="4")
    await stage.start()
    await add_web(stage, "web", nodeSelector={HOST: "small"})
    await stage.node_of("web")
    await stage.add_pod("near", affinity=preference("podAffinity"))
    await stage.add_pod("far", affinity=preference("podAntiAffinity"))
    assert (await stage.node_of("near"), await stage.node_of("far")) == ("small", "big")


async def test_pods_are_spread_over_zones(stage: Stage) -> None:
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")):
        await stage.add_node(name, labels={ZONE: zone})
    await stage.add_node("nowhere")
    await stage.start()
    for index in range(6):
        await add_web(stage, f"p{index}", topologySpreadConstraints=[spread(ZONE)])
    bound = await stage.all_bound(6)
    zones = Counter(pod.spec.node_name[0] for pod in bound)
    assert zones == {"a": 2, "b": 2, "c": 2}


async def test_a_pod_that_would_lean_to_one_side_waits(stage: Stage) -> None:
    await stage.add_node("a", labels={ZONE: "a"})
    await stage.add_node("b", cpu="1", labels={ZONE: "b"})
    await stage.add_node("nowhere")
    await stage.start()
    for name in ("p0", "p1"):
        await add_web(stage, name, cpu="1", topologySpreadConstraints=[spread(ZONE)])
    assert {await stage.node_of("p0"), await stage.node_of("p1")} == {"a", "b"}
    await add_web(stage, "p2", cpu="1", topologySpreadConstraints=[spread(ZONE)])
    assert await stage.node_of("p2") == "a"
    await add_web(stage, "p3", cpu="1", topologySpreadConstraints=[spread(ZONE)])
    message = await stage.refusal("p3")
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in message
    assert "1 node(s) didn't match pod topology spread constraints," in message.replace(".", ",")
    assert "1 Insufficient cpu" in message
    await stage.add_node("b2", labels={ZONE: "b"})
    assert await stage.node_of("p3") == "b2"


async def test_too_few_domains_count_as_empty_ones(stage: Stage) -> None:
    await stage.add_node("a", labels={ZONE: "a"})
    await stage.start()
    constraint = spread(ZONE, minDomains=2)
    await add_web(stage, "p0", topologySpreadConstraints=[constraint])
    assert await stage.node_of("p0") == "a"
    await add_web(stage, "p1", topologySpreadConstraints=[constraint])
    await stage.refusal("p1")
    await stage.add_node("b", labels={ZONE: "b"})
    assert await stage.node_of("p1") == "b"


async def test_a_spread_that_is_only_wished_for_is_kept_where_it_can_be(stage: Stage) -> None:
    await stage.add_node("big", cpu="32")
    await stage.add_node("small", cpu="4")
    await stage.start()
    constraint = spread(HOST, whenUnsatisfiable="ScheduleAnyway")
    await add_web(stage, "p0", nodeSelector={HOST: "big"})
    await stage.node_of("p0")
    await add_web(stage, "p1", topologySpreadConstraints=[constraint])
    assert await stage.node_of("p1") == "small"
    await add_web(stage, "p2", nodeSelector={HOST: "small"}, topologySpreadConstraints=[constraint])
    assert await stage.node_of("p2") == "small"


async def test_pods_of_a_service_are_spread_though_they_do_not_say_so(stage: Stage) -> None:
    await stage.add_node("free")
    await stage.add_node("busy")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    await stage.client.create_raw(resource_of(Service), NAMESPACE, service)
    try:
        await stage.start()
        await stage.add_pod("work", cpu="2", nodeSelector={HOST: "busy"})
        await stage.node_of("work")
        for name in ("p0", "p1"):
            await stage.add_pod(name, labels={"app": "other"})
            assert await stage.node_of(name) == "free"
        await add_web(stage, "w0", nodeSelector={HOST: "free"})
        await stage.node_of("w0")
        await add_web(stage, "w1")
        assert await stage.node_of("w1") == "busy"
    finally:
        await stage.client.delete(Service, NAMESPACE, "web")


async def test_the_node_that_has_the_image_is_better(stage: Stage) -> None:
    for name in ("n1", "n2", "n3"):
        await stage.add_node(name)
    images = [{"names": ["registry.test/app:1"], "sizeBytes": 1 << 30}]
    await stage.client.patch_status(Node, "", "n2", {"status": {"images": images}})
    await stage.start()
    for index in range(3):
        await stage.add_pod(f"p{index}", cpu="1m")
        assert await stage.node_of(f"p{index}") == "n2"


async def test_unevenly_used_nodes_are_evened_out(stage: Stage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name, cpu="10")
    await stage.start()
    await stage.add_pod("computes", cpu="5", nodeSelector={HOST: "n1"})
    container = {"name": "main", "image": "i", "resources": {"requests": {"memory": "16Gi", "cpu": "0"}}}
    await stage.add_pod("remembers", containers=[container], nodeSelector={HOST: "n2"})
    await stage.node_of("computes")
    await stage.node_of("remembers")
    await stage.add_pod("computes-too", cpu="4")
    assert await stage.node_of("computes-too") == "n2"


async def test_a_more_important_pod_evicts_one_that_keeps_it_away(stage: Stage) -> None:
    await stage.add_priority("high", 1000)
    await stage.add_node("n1")
    await stage.add_node("n2")
    await stage.start()
    apart = affinity("podAntiAffinity")
    for name, cpu in (("n1", "1"), ("n2", "2")):
        pinned: dict[str, Any] = {"nodeSelector": {HOST: name}, "terminationGracePeriodSeconds": 0}
        await stage.add_pod(f"alone-{name}", cpu=cpu, affinity=apart, **pinned)
        await stage.node_of(f"alone-{name}")
    await add_web(stage, "web", priorityClassName="high")
    async with asyncio.timeout(PATIENCE):
        while len(left := await stage.pods()) > 2:
            await asyncio.sleep(0.05)
    assert "web" in {pod.metadata.name for pod in left}


async def test_a_more_important_pod_makes_room_where_the_spread_allows_it(stage: Stage) -> None:
    await stage.add_priority("high", 1000)
    await stage.add_node("a", cpu="2", labels={ZONE: "a"})
    await stage.add_node("b", cpu="2", labels={ZONE: "b"})
    await stage.start()
    for name, place in (("w0", "a"), ("w1", "a"), ("w2", "b"), ("w3", "b")):
        labels = {"app": "web"} if name != "w3" else {"app": "other"}
        pinned: dict[str, Any] = {"nodeSelector": {HOST: place}, "terminationGracePeriodSeconds": 0}
        await stage.add_pod(name, cpu="1", labels=labels, **pinned)
        await stage.node_of(name)
    constraint = spread(ZONE)
    await add_web(stage, "new", cpu="1", priorityClassName="high", topologySpreadConstraints=[constraint])
    await stage.node_of("new")
    left = await stage.pods()
    zones = Counter(pod.spec.node_name for pod in left if pod.metadata.labels["app"] == "web")
    assert len(left) == 4
    assert abs(zones["a"] - zones["b"]) <= 1
