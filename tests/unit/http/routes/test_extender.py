import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from koordpy.http.routes.extender import endpoints
from koordpy.http.server.application import Application
from koordpy.scheduling.interface import Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from tests.unit.scheduling.worlds import bind_body, extender, filter_body, node, pod, pod_document, world


class Same(Plugin, Score):
    name = "Same"

    def score(self, state: CycleState, pod: Any, node: Any) -> int:
        return 7


async def call(
    verb: str,
    body: bytes,
    method: str = "POST",
    max_body: int = 1 << 20,
    chunks: int = 1,
    content_type: bytes | None = b"application/json",
) -> tuple[int, Any]:
    headers = [] if content_type is None else [(b"content-type", content_type)]
    verbs = endpoints(extender(world([node("a"), node("b")], [pod("p")]), Same), max_body=max_body)
    app = Application("test", [], verbs)
    size = max(1, -(-len(body) // chunks))
    parts = [body[i : i + size] for i in range(0, len(body), size)] or [b""]
    messages = [
        {"type": "http.request", "body": part, "more_body": i + 1 < len(parts)}
        for i, part in enumerate(parts)
    ]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": f"/extender/{verb}", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.parametrize("chunks", [1, 3])
async def test_filter_answers_with_the_nodes_that_are_left(chunks: int) -> None:
    status, answer = await call("filter", filter_body(pod_document("p"), ["a", "b"]), chunks=chunks)
    assert (status, answer["NodeNames"]) == (200, ["a", "b"])


async def test_prioritize_answers_with_scores() -> None:
    status, answer = await call("prioritize", filter_body(pod_document("p"), ["a", "b"]))
    assert (status, answer) == (200, [{"Host": "a", "Score": 7}, {"Host": "b", "Score": 7}])


async def test_bind_binds() -> None:
    assert await call("bind", bind_body(pod_document("p"), "a")) == (200, {"Error": ""})


async def test_preempt_accepts() -> None:
    body = json.dumps({"Pod": pod_document("p"), "NodeNameToMetaVictims": {"a": {"Pods": []}}}).encode()
    assert (await call("preempt", body))[1]["NodeNameToMetaVictims"]["a"]["Pods"] == []


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"null", b'{"Pod":', b'{"PodName":{}}'])
async def test_a_malformed_body_is_a_bad_request_that_names_the_verb(verb: str, body: bytes) -> None:
    status, answer = await call(verb, body)
    assert status == 400
    assert answer["Error"].startswith(f"{verb}: ")


async def test_a_body_that_is_too_large_is_refused() -> None:
    assert (await call("filter", b"x" * 100, max_body=50))[0] == 413
    assert (await call("filter", b"x" * 100, max_body=50, chunks=4))[0] == 413


async def test_other_verbs_and_methods_are_refused() -> None:
    assert (await call("filters", b"{}"))[0] == 404
    assert (await call("filter", b"{}", method="GET"))[0] == 405


@pytest.mark.parametrize(
    "content_type",
    [None, b"text/plain", b"application/x-www-form-urlencoded", b"application/jsonx", b"\r\xff"],
)
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_bodies_that_a_web_page_may_send_unasked_are_refused(
    verb: str, content_type: bytes | None
) -> None:
    body = bind_body(pod_document("p"), "a") if verb == "bind" else filter_body(pod_document("p"), ["a"])
    status, answer = await call(verb, body, content_type=content_type)
    assert status == 415
    assert answer["Error"].startswith(f"{verb}: Content-Type is ")
    assert answer["Error"].endswith(", expected application/json")


async def test_a_content_type_may_have_parameters() -> None:
    typed = b"Application/JSON; charset=utf-8"
    assert (await call("bind", bind_body(pod_document("p"), "a"), content_type=typed))[0] == 200
