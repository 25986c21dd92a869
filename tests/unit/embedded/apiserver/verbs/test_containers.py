"""What is asked of containers is refused with a sentence that says why."""

import msgspec
import pytest

from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.wire import Request, Response

PODS = "/api/v1/namespaces/default/pods"


async def call(server: ApiServer, method: str, path: str, document: object = None) -> Response:
    headers = {b"content-type": b"application/json"}
    body = b"" if document is None else msgspec.json.encode(document)
    answer = server.handle(Request(method, path.encode(), headers, body))
    found = answer if isinstance(answer, Response) else await answer  # type: ignore[misc]
    assert isinstance(found, Response)
    return found


@pytest.mark.parametrize(
    ("method", "subresource", "told"),
    [
        ("GET", "log", "pod 'web' has no logs (container 'main')"),
        ("GET", "exec?command=ls", "cannot execute a command in pod 'web' (container 'main')"),
        ("POST", "exec?command=ls", "cannot execute a command in pod 'web' (container 'main')"),
        ("POST", "attach", "cannot attach to a container of pod 'web' (container 'main')"),
        ("POST", "portforward", "cannot forward a port to pod 'web'"),
    ],
)
async def test_pod_on_a_node_runs_no_containers(method: str, subresource: str, told: str) -> None:
    server = ApiServer()
    await server.load()
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry.test/app:1"}]}
    assert (await call(server, "POST", PODS, {"metadata": {"name": "web"}, "spec": spec})).status == 201
    answer = await call(server, method, f"{PODS}/web/{subresource}")
    message = msgspec.json.decode(answer.body)["message"]
    assert answer.status == 400
    assert message.startswith(f"{told}: this is koordpy's embedded control plane")


async def test_container_must_be_named_where_there_are_several() -> None:
    server = ApiServer()
    await server.load()
    containers = [{"name": name, "image": "registry.test/app:1"} for name in ("main", "helper")]
    await call(server, "POST", PODS, {"metadata": {"name": "web"}, "spec": {"containers": containers}})
    message = msgspec.json.decode((await call(server, "GET", f"{PODS}/web/log")).body)["message"]
    assert message == "a container name must be specified for pod web, choose one of: [main helper]"


async def test_logs_that_are_followed_are_the_sentence_alone() -> None:
    server = ApiServer()
    await server.load()
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry.test/app:1"}]}
    await call(server, "POST", PODS, {"metadata": {"name": "web"}, "spec": spec})
    answer = await call(server, "GET", f"{PODS}/web/log?follow=true")
    assert (answer.status, answer.content_type) == (200, "text/plain")
    assert answer.body.startswith(b"pod 'web' has no logs")
    assert answer.body.count(b"\n") == 1


async def test_container_that_would_never_start_is_not_added() -> None:
    server = ApiServer()
    await server.load()
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "registry.test/app:1"}]}
    await call(server, "POST", PODS, {"metadata": {"name": "web"}, "spec": spec})
    pod = msgspec.json.decode((await call(server, "GET", f"{PODS}/web")).body)
    pod["spec"]["ephemeralContainers"] = [{"name": "debugger", "image": "registry.test/debug:1"}]
    answer = await call(server, "PUT", f"{PODS}/web/ephemeralcontainers", pod)
    assert answer.status == 400
    assert b"cannot add a container to pod 'web'" in answer.body
