import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import numpy as np

from koordpy.admission.chain import Chain
from koordpy.admission.handler import GroupVersionResource, Request
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.http.routes import debug
from koordpy.http.server.application import Application
from koordpy.scheduling.interface import APIService, Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.profiles.profiles import Profiles
from tests.unit.scheduling.worlds import framework, node, pod_document, world


class Echo(Plugin, Score, APIService):
    """Returns its parameters, in types that plugins return."""

    name = "Echo"

    def score(self, state: CycleState, pod: Pod, node: Any) -> int:
        return 0

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        return {
            "echo/{first}/{second}": lambda first, second: {"got": [first, second]},
            "/arrays": lambda: {"amount": np.int64(5), "column": np.array([1, 2]), "yes": np.bool_(True)},
            "missing/{name}": self._missing,
            "thread": lambda: {"thread": threading.get_ident()},
            "detail": lambda detail="": {"detail": detail},
        }

    @staticmethod
    def _missing(name: str) -> object:
        raise LookupError(f"no {name} here")


def client(sources: debug.Sources) -> httpx.AsyncClient:
    app = Application("test", [debug.router(sources)], {})
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def telling() -> debug.Sources:
    frameworks = {"default-scheduler": framework(world([]), Echo)}
    return debug.Sources(profiles=Profiles(frameworks=frameworks))


async def test_a_plugins_endpoints_get_their_path_parameters() -> None:
    answer = await client(telling()).get("/apis/v1/plugins/Echo/echo/a/b%20c")
    assert answer.json() == {"got": ["a", "b c"]}


async def test_numpy_values_are_shown_as_numbers() -> None:
    answer = await client(telling()).get("/apis/v1/plugins/Echo/arrays")
    assert answer.json() == {"amount": 5, "column": [1, 2], "yes": True}


async def test_lookup_errors_of_plugins_are_404() -> None:
    answer = await client(telling()).get("/apis/v1/plugins/Echo/missing/thing")
    assert (answer.status_code, answer.json()) == (404, {"message": "no thing here"})


async def test_parameters_that_are_not_in_the_path_come_in_the_query() -> None:
    path = "/apis/v1/plugins/Echo/detail"
    assert (await client(telling()).get(f"{path}?detail=true&other=1")).json() == {"detail": "true"}
    assert (await client(telling()).get(path)).json() == {"detail": ""}


async def test_nothing_is_shown_of_a_cluster_that_has_not_been_listed() -> None:
    sources = telling()
    sources.cluster, sources.is_ready = world([node("n")]), lambda: False
    for path in ("/apis/v1/nodes/n", "/nodes/n", "/apis/v1/plugins/Echo/arrays"):
        answer = await client(sources).get(path)
        assert answer.status_code == 503
        assert answer.json() == {"message": "The component is initializing and temporarily unavailable"}


async def test_plugins_are_called_on_the_event_loops_thread() -> None:
    answer = await client(telling()).get("/apis/v1/plugins/Echo/thread")
    assert answer.json() == {"thread": threading.get_ident()}


async def test_the_openapi_document_declares_parameters_of_plugin_endpoints() -> None:
    document = (await client(telling()).get("/openapi.json")).json()
    operation = document["paths"]["/apis/v1/plugins/Echo/echo/{first}/{second}"]["get"]
    assert [(p["name"], p["in"], p["required"]) for p in operation["parameters"]] == [
        ("first", "path", True),
        ("second", "path", True),
    ]


async def test_services_lists_endpoints_of_plugins() -> None:
    listed = (await client(telling()).get("/apis/v1/__services__")).json()["GET"]
    assert "/apis/v1/plugins/Echo/arrays" in listed
    assert all(re.fullmatch(r"/[\w/:.-]*", path) for path in listed)


def rich_pod() -> dict[str, Any]:
    document = pod_document("p", cpu="1", memory="1Gi", node_name="n")
    document["spec"]["containers"] += [
        {
            "name": "web",
            "resources": {"requests": {"nvidia.com/gpu": "2"}},
            "ports": [
                {"containerPort": 80, "hostPort": 8080},
                {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
                {"containerPort": 9},
            ],
        }
    ]
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
    document["spec"]["affinity"] = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }
    document["spec"]["volumes"] = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "emptyDir": {}},
    ]
    return document


async def test_a_node_is_dumped_with_everything_koordinator_dumps() -> None:
    there = decode(
        Node,
        {
            "metadata": {"name": "n", "uid": "u"},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "4"},
                "images": [{"names": ["app:1", "app@sha256:0"], "sizeBytes": 77}],
            },
        },
    )
    cluster = world([there], [decode(Pod, rich_pod())])
    shown = (await client(debug.Sources(cluster)).get("/apis/v1/nodes/n")).json()
    assert shown["usedPorts"] == {
        "0.0.0.0": [{"Protocol": "TCP", "Port": 8080}],
        "10.0.0.1": [{"Protocol": "UDP", "Port": 53}],
    }
    assert shown["requested"] == {
        "MilliCPU": 1000,
        "Memory": 1 << 30,
        "EphemeralStorage": 0,
        "AllowedPodNumber": 0,
        "ScalarResources": {"nvidia.com/gpu": 2},
    }
    assert shown["remaining"]["ScalarResources"] == {"nvidia.com/gpu": 2}
    assert shown["allocatable"]["MilliCPU"] == 4000
    assert [info["Pod"]["metadata"]["name"] for info in shown["podsWithAffinity"]] == ["p"]
    assert [info["Pod"]["metadata"]["name"] for info in shown["podsWithRequiredAntiAffinity"]] == ["p"]
    image = {"Size": 77, "NumNodes": 1}
    assert shown["imageStates"] == {"app:1": image, "app@sha256:0": image}
    assert shown["pvcRefCounts"] == {"default/data": 1}


async def test_a_deleted_node_that_still_has_pods_is_not_found() -> None:
    cluster = world([node("n")], [decode(Pod, pod_document("p", node_name="n"))])
    cluster.store(Node).discard("n")
    answer = await client(debug.Sources(cluster)).get("/apis/v1/nodes/n")
    assert (answer.status_code, answer.json()) == (404, {"message": "cannot find node n"})


async def test_an_admission_is_shown_with_its_verdict() -> None:
    chain = Chain("/mutate-pod", [])
    resource = GroupVersionResource(group="", version="v1", resource="pods")
    raw = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}).encode()
    chain.admit(Request(uid="1", operation="CREATE", namespace="d", name="p", resource=resource), raw)
    chain.admit(Request(uid="2", operation="CREATE", namespace="d", name="q", resource=resource), b"{")
    shown = (await client(debug.Sources(chains={"/mutate-pod": chain})).get("/apis/v1/admissions")).json()
    assert [(a["uid"], a["allowed"], a["code"], a["patch"]) for a in shown] == [
        ("2", False, 400, []),
        ("1", True, 200, []),
    ]
    assert shown[0]["message"]


async def test_gates_are_shown_with_the_configuration() -> None:
    sources = debug.Sources(configz={"koordpy": {"parts": ["debug"]}}, gates={"ResizePod": True})
    shown = (await client(sources).get("/configz")).json()
    assert shown == {"koordpy": {"parts": ["debug"]}, "featureGates": {"ResizePod": True}}
