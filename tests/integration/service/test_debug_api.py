"""The debug API of a running process: health, metrics, configuration, nodes, decisions, admissions."""

import re
from typing import Any

from fastapi.openapi.models import OpenAPI

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from tests.integration.service.stage import Stage, pod_document, review_of, until

CHECKS = [
    "ping",
    "informers",
    "listener-admission",
    "listener-extender",
    "listener-debug",
    "informer-Node",
    "informer-NodeMetric",
    "informer-Pod",
    "node-state",
]


async def test_a_ready_service_is_healthy_and_lists_its_checks(stage: Stage) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        answer = await stage.get(path)
        assert (answer.status_code, answer.text) == (200, "ok")
    lines = (await stage.get("/readyz?verbose")).text.splitlines()
    assert {f"[+]{check} ok" for check in CHECKS} <= set(lines)
    assert lines[-1] == "readyz check passed"
    for check in CHECKS:
        assert (await stage.get(f"/readyz/{check}")).status_code == 200


async def test_every_listener_serves_health(stage: Stage) -> None:
    for part in ("admission", "extender", "debug"):
        answer = await stage.http.get(f"{stage.url(part)}/readyz")
        assert (answer.status_code, answer.text) == (200, "ok"), part


async def test_metrics_have_the_series_that_dashboards_of_koordinator_use(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.filter(pod, "n0", "n1")
    await stage.prioritize(pod, "n0", "n1")
    assert await stage.bind(pod, "n0") == ""
    await stage.review(review_of(pod_document("q")))
    answer = await stage.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    series = set(re.findall(r"^([a-z_]+)(?:\{|\s)", answer.text, re.MULTILINE))
    assert {
        "scheduler_framework_extension_point_duration_seconds_count",
        "scheduler_schedule_attempts_total",
        "scheduler_scheduling_attempt_duration_seconds_count",
        "koordpy_extender_request_duration_seconds_count",
        "koordpy_extender_waiting_pods",
        "koord_manager_webhook_webhook_duration_milliseconds_count",
        "controller_runtime_webhook_requests_total",
        "controller_runtime_webhook_latency_seconds_count",
        "koordpy_client_requests_total",
        "koordpy_informer_objects",
        "koordpy_informer_lists_total",
    } <= series
    # measured in every tenth attempt only, so there may be no sample yet
    assert "# TYPE scheduler_plugin_execution_duration_seconds histogram" in answer.text


async def test_configz_shows_settings_and_gates(stage: Stage) -> None:
    shown = (await stage.get("/configz")).json()
    assert shown["koordpy"]["client"]["server"] == stage.server.url
    assert shown["koordpy"]["extender"]["decisions"] == 1000
    assert shown["featureGates"]["PodMutatingWebhook"] is True
    assert shown["featureGates"]["ResizePod"] is False


async def test_services_lists_routes_and_those_of_plugins(stage: Stage) -> None:
    services = (await stage.get("/apis/v1/__services__")).json()
    assert {
        "/apis/v1/__services__",
        "/apis/v1/nodes/:nodeName",
        "/apis/v1/decisions",
        "/apis/v1/decisions/:namespace/:pod",
        "/apis/v1/admissions",
        "/apis/v1/plugins/LoadAwareScheduling/node/:nodeName",
    } <= set(services["GET"])
    assert all(path.startswith("/apis/v1/") for path in services["GET"])
    assert services["GET"] == sorted(services["GET"])
    assert services["POST"] == [
        "/apis/v1/whatif",
        "/apis/v1/whatif/descheduling",
        "/apis/v1/whatif/drain",
    ]


async def test_the_openapi_document_is_valid_and_declares_every_path_parameter(stage: Stage) -> None:
    document = (await stage.get("/openapi.json")).json()
    OpenAPI.model_validate(document)
    for path, operations in document["paths"].items():
        wanted = set(re.findall(r"\{(\w+)\}", path))
        for operation in operations.values():
            declared = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
            assert declared == wanted, path
    for reference in _references(document):
        target: Any = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
        assert target
    operations = [one["operationId"] for item in document["paths"].values() for one in item.values()]
    assert len(operations) == len(set(operations))


def _references(document: Any) -> list[str]:
    if isinstance(document, dict):
        own = [document["$ref"]] if isinstance(document.get("$ref"), str) else []
        return own + [found for value in document.values() for found in _references(value)]
    if isinstance(document, list):
        return [found for value in document for found in _references(value)]
    return []


async def test_a_node_is_shown_as_koordinator_shows_it(stage: Stage) -> None:
    pod = await stage.add_pod("p", cpu="1500m")
    assert await stage.bind(pod, "n0") == ""
    shown = (await stage.get("/apis/v1/nodes/n0")).json()
    members = {"node", "pods", "requested", "nonZeroRequested", "remaining", "allocatable", "generation"}
    assert set(shown) == members  # empty members are left out, as Go does
    assert shown["node"]["metadata"]["name"] == "n0"
    [info] = shown["pods"]
    assert info["Pod"]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert info["RequiredAffinityTerms"] is info["PreferredAntiAffinityTerms"] is None
    assert shown["requested"] == {
        "MilliCPU": 1500,
        "Memory": 256 << 20,
        "EphemeralStorage": 0,
        "AllowedPodNumber": 0,  # kube-scheduler counts the pods themselves
        "ScalarResources": None,
    }
    assert shown["remaining"]["MilliCPU"] == 2500
    assert shown["allocatable"]["AllowedPodNumber"] == shown["remaining"]["AllowedPodNumber"] == 20
    assert shown["nonZeroRequested"]["MilliCPU"] == 1500
    assert (await stage.get("/nodes/n0")).json() == shown


async def test_affinity_ports_and_claims_of_pods_are_shown_in_the_schedulers_terms(stage: Stage) -> None:
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    document = pod_document("p")
    document["spec"] |= {
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": near}]
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]},
        },
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "nodeName": "n1",
    }
    document["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    await stage.client.create_raw(resource_of(Pod), "default", document)
    await until(lambda: bool(list(stage.process.cluster.nodes.pods_on(_row(stage, "n1")))))
    shown = (await stage.get("/apis/v1/nodes/n1")).json()
    [apart] = shown["podsWithRequiredAntiAffinity"][0]["RequiredAntiAffinityTerms"]
    assert apart == {
        "Namespaces": {"default": {}},
        "Selector": {"matchLabels": {"app": "a"}},
        "TopologyKey": "zone",
        "NamespaceSelector": None,
    }
    [together] = shown["podsWithAffinity"][0]["PreferredAffinityTerms"]
    assert (together["Weight"], together["TopologyKey"]) == (7, "zone")
    assert shown["usedPorts"] == {"0.0.0.0": [{"Protocol": "TCP", "Port": 8080}]}
    assert shown["pvcRefCounts"] == {"default/data": 1}


def _row(stage: Stage, node: str) -> int:
    row = stage.process.cluster.nodes.row_of(node)
    assert row is not None
    return row


async def test_an_unknown_path_is_answered_as_koordinator_does(stage: Stage) -> None:
    answer = await stage.get("/apis/v1/nothing")
    assert (answer.status_code, answer.text) == (404, "404 page not found")


async def test_a_node_that_does_not_exist_is_not_found(stage: Stage) -> None:
    answer = await stage.get("/apis/v1/nodes/n9")
    assert (answer.status_code, answer.json()) == (404, {"message": "cannot find node n9"})


async def test_a_decision_has_every_step_of_a_pod(stage: Stage) -> None:
    pod = await stage.add_pod("p", cpu="3")
    first = await stage.add_pod("first", cpu="3")
    assert await stage.bind(first, "n1") == ""
    answer = await stage.filter(pod, "n0", "n1")
    assert answer["NodeNames"] == ["n0"]
    assert answer["FailedNodes"] == {"n1": "Insufficient cpu"}
    await stage.prioritize(pod, "n0")
    assert await stage.bind(pod, "n0") == ""
    [decision] = (await stage.get("/apis/v1/decisions/default/p")).json()
    assert (decision["outcome"], decision["node"]) == ("bound", "n0")
    assert decision["profile"] == "default-scheduler"
    assert (decision["evaluatedNodes"], decision["feasibleNodes"]) == (2, 1)
    [rejection] = decision["rejections"]
    assert (rejection["plugin"], rejection["reason"]) == ("NodeResourcesFit", "Insufficient cpu")
    assert (rejection["nodes"], rejection["examples"]) == (1, ["n1"])
    assert [best["node"] for best in decision["topNodes"]] == ["n0"]
    assert {"filter", "score", "total"} <= set(decision["milliseconds"])
    newest = (await stage.get("/apis/v1/decisions?limit=1")).json()
    assert [d["pod"] for d in newest] == ["p"]


async def test_decisions_about_an_unknown_pod_are_not_found(stage: Stage) -> None:
    answer = await stage.get("/apis/v1/decisions/default/nobody")
    assert answer.status_code == 404
    assert answer.json()["message"] == ("no scheduling decision about pod default/nobody: none is remembered")


async def test_a_senseless_limit_is_refused(stage: Stage) -> None:
    for path in ("/apis/v1/decisions", "/apis/v1/admissions"):
        for limit in ("0", "-1", "many", "100000000"):
            assert (await stage.get(f"{path}?limit={limit}")).status_code == 400


async def test_admissions_are_shown_newest_first(stage: Stage) -> None:
    for name in ("one", "two"):
        answer = await stage.review(review_of(pod_document(name), uid=f"uid-{name}"))
        assert answer.json()["response"]["allowed"] is True
    shown = (await stage.get("/apis/v1/admissions")).json()
    assert [(a["name"], a["uid"], a["allowed"], a["code"]) for a in shown] == [
        ("two", "uid-two", True, 200),
        ("one", "uid-one", True, 200),
    ]
    assert shown[0]["path"] == "/mutate-pod"
    assert len((await stage.get("/apis/v1/admissions?limit=1")).json()) == 1


async def test_a_plugin_shows_what_it_knows_of_a_node(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    assert await stage.bind(pod, "n0") == ""
    pods = stage.process.cluster.store(Pod)
    await until(lambda: any(known.spec.node_name == "n0" for known in pods))
    shown = (await stage.get("/apis/v1/plugins/LoadAwareScheduling/node/n0")).json()
    assert [entry["pod"]["metadata"]["name"] for entry in shown["pods"]] == ["p"]


async def test_only_reading_is_possible(stage: Stage) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/configz", "/apis/v1/nodes/n0", "/apis/v1/decisions", "/metrics", "/readyz"):
            answer = await stage.http.request(method, stage.url("debug") + path)
            assert answer.status_code == 405, (method, path)


async def test_an_unknown_parameter_is_refused_not_ignored(stage: Stage) -> None:
    for path, known in (
        ("/apis/v1/decisions", "limit, namespace, pod, reservation, outcome, watch"),
        ("/apis/v1/admissions", "limit"),
        ("/apis/v1/decisions/default/p", "no parameters"),
        ("/apis/v1/pods/default/p/history", "uid"),
    ):
        answer = await stage.get(f"{path}?nmspace=shop")
        assert answer.status_code == 400
        assert answer.json() == {"message": f"got parameter 'nmspace', expected {known}"}


async def test_the_first_page_lists_the_paths(stage: Stage) -> None:
    paths = (await stage.get("/")).json()["paths"]
    assert {"/configz", "/metrics", "/openapi.json", "/apis/v1/whatif", "/nodes/{node_name}"} <= set(paths)
    assert "stacks" in (await stage.get("/debug/pprof/")).text
