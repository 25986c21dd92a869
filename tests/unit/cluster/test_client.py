"""The client's requests, errors and retries, against a scripted server."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from koordpy.api.core import Node, Pod, PodSpec
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import DecodeError, resource_of
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from tests.servers.collection import status
from tests.servers.raw import Exchange, RawServer

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u1"), spec=PodSpec(node_name="n1"))
POD_BYTES = b'{"metadata":{"name":"p","namespace":"ns","uid":"u1"},"spec":{"nodeName":"n1"}}'


@dataclass
class Answers:
    """The server's answers in order; None closes the connection."""

    script: list[tuple[int, bytes, str] | None]
    pauses: list[float] = field(default_factory=list)

    async def __call__(self, exchange: Exchange) -> None:
        answer = self.script.pop(0)
        if answer is None:
            exchange.cut()
        else:
            await exchange.reply(*answer)


@asynccontextmanager
async def talking(
    *script: tuple[int, bytes, str] | None, **options: Any
) -> AsyncIterator[tuple[Client, RawServer, list[float]]]:
    answers = Answers(list(script))

    async def sleep(seconds: float) -> None:
        answers.pauses.append(seconds)

    async with RawServer(answers) as server:
        client = Client(Connection.to(Access(server.url)), sleep=sleep, rng=random.Random(1), **options)
        yield client, server, answers.pauses
        await client.close()
    assert not answers.script, "the client sent fewer requests than expected"


OK = (200, POD_BYTES, "")


async def test_get_returns_the_struct() -> None:
    async with talking(OK) as (client, server, _):
        assert (await client.get(Pod, "ns", "p")).spec.node_name == "n1"
    assert (server.requests[0].method, server.requests[0].target) == ("GET", "/api/v1/namespaces/ns/pods/p")
    assert server.requests[0].headers["accept"] == "application/json"
    assert server.requests[0].headers["user-agent"].startswith("koordpy/")


async def test_get_raw_returns_all_fields() -> None:
    async with talking((200, b'{"a":{"b":1}}', "")) as (client, _, _):
        assert await client.get_raw(resource_of(Node), "", "n") == {"a": {"b": 1}}


async def test_names_cannot_point_elsewhere() -> None:
    async with talking(OK) as (client, server, _):
        await client.get(Pod, "ns", "../../secrets/x?y#z")
        with pytest.raises(ValueError, match="cannot be the name"):
            await client.get(Pod, "ns", "..")
    assert server.requests[0].target == "/api/v1/namespaces/ns/pods/..%2F..%2Fsecrets%2Fx%3Fy%23z"


async def test_list_all_goes_through_all_pages() -> None:
    first = b'{"metadata":{"continue":"more","resourceVersion":"7"},"items":[%b]}' % POD_BYTES
    last = b'{"metadata":{"resourceVersion":"7"},"items":[%b]}' % POD_BYTES
    async with talking((200, first, ""), (200, last, "")) as (client, server, _):
        assert len(await client.list_all(Pod, label_selector="a in (b,c)")) == 2
    assert server.requests[0].target == "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=500"
    assert "continue=more" in server.requests[1].target


async def test_malformed_object_of_a_page_is_skipped_and_named() -> None:
    bad = b'{"metadata":{"name":"bad","namespace":"ns"},"spec":7}'
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (bad, POD_BYTES)
    async with talking((200, body, "")) as (client, _, _):
        page = await client.list_page(Pod)
    assert [pod.metadata.name for pod in page.items] == ["p"]
    assert page.malformed[0].key == "ns/bad"
    assert "$.spec" in page.malformed[0].error


@pytest.mark.parametrize("body", [b"{}", b'{"kind":"Status","metadata":{}}', b'{"metadata":{},"items":[]}'])
async def test_a_document_without_a_resource_version_is_no_empty_list(body: bytes) -> None:
    async with talking((200, body, "")) as (client, _, _):
        with pytest.raises(DecodeError, match=r"list of Pod: metadata\.resourceVersion is missing"):
            await client.list_page(Pod)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (418, "Teapot", ApiError),
    ],
)
async def test_refusal_becomes_the_error_of_its_kind(code: int, reason: str, kind: type[ApiError]) -> None:
    async with talking((code, status(code, reason, "because", name="p"), "")) as (client, _, _):
        with pytest.raises(kind) as caught:
            await client.get(Pod, "ns", "p")
    assert type(caught.value) is kind
    assert str(caught.value) == f"GET /api/v1/namespaces/ns/pods/p: {code} {reason}: because"
    assert caught.value.details == {"name": "p"}


async def test_refusal_of_a_proxy_shows_what_it_wrote() -> None:
    async with talking((403, b"<html>no way</html>", "")) as (client, _, _):
        with pytest.raises(Forbidden, match="<html>no way</html>"):
            await client.get(Pod, "ns", "p")


async def test_retry_after_is_waited_for_even_when_writing() -> None:
    async with talking((429, status(429, "TooManyRequests"), "retry-after: 3\r\n"), OK) as (
        client,
        _,
        pauses,
    ):
        await client.create(POD)
    assert 3 <= pauses[0] < 4


async def test_retry_after_may_stand_in_the_details() -> None:
    refusal = (503, status(503, "ServiceUnavailable", retryAfterSeconds=2), "")
    async with talking(refusal, OK) as (client, _, pauses):
        await client.create(POD)
    assert 2 <= pauses[0] < 3


async def test_pauses_grow_and_the_last_error_is_raised() -> None:
    busy = (500, status(500, "InternalError"), "")
    async with talking(*[busy] * 5) as (client, _, pauses):
        with pytest.raises(ServerError):
            await client.get(Pod, "ns", "p")
    assert len(pauses) == 4
    assert pauses[0] < pauses[2] < pauses[3]


async def test_create_is_not_repeated_after_a_lost_answer() -> None:
    async with talking(None) as (client, _, _):
        with pytest.raises(ConnectionFailed, match="POST /api/v1/namespaces/ns/pods") as caught:
            await client.create(POD)
    assert caught.value.sent


async def test_create_is_not_repeated_after_a_server_error() -> None:
    async with talking((500, status(500, "InternalError"), "")) as (client, _, _):
        with pytest.raises(ServerError):
            await client.create(POD)


async def test_create_fills_in_kind_and_field_manager() -> None:
    async with talking(OK) as (client, server, _):
        await client.create(POD)
    request = server.requests[0]
    assert request.target == "/api/v1/namespaces/ns/pods?fieldManager=koordpy"
    assert json.loads(request.body)["kind"] == "Pod"


@pytest.mark.parametrize("kind", list(PatchType))
async def test_patch_has_the_content_type_of_its_kind(kind: PatchType) -> None:
    async with talking(OK) as (client, server, _):
        await client.patch(Pod, "ns", "p", [], kind, dry_run=True)
    request = server.requests[0]
    assert (request.method, request.headers["content-type"]) == ("PATCH", kind.value)
    assert request.target == "/api/v1/namespaces/ns/pods/p?fieldManager=koordpy&dryRun=All"


async def test_merge_patch_is_repeated_but_a_conditional_one_is_not() -> None:
    async with talking(None, OK) as (client, _, _):
        await client.patch_status(Pod, "ns", "p", {"status": {"reason": "x"}})
    async with talking(None) as (client, _, _):
        with pytest.raises(ConnectionFailed):
            await client.patch(Pod, "ns", "p", {"metadata": {"resourceVersion": "1"}})
    async with talking(None) as (client, _, _):
        with pytest.raises(ConnectionFailed):
            await client.patch(Pod, "ns", "p", [{"op": "remove", "path": "/x"}], PatchType.JSON)


async def test_bind_sends_uid_and_annotations_in_one_request() -> None:
    async with talking((201, status(201, "Created"), "")) as (client, server, _):
        await client.bind(POD, "n1", {"a": "b"})
    request = server.requests[0]
    assert (request.method, request.target) == (
        "POST",
        "/api/v1/namespaces/ns/pods/p/binding?fieldManager=koordpy",
    )
    assert msgspec.json.decode(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "annotations": {"a": "b"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


async def test_bind_whose_answer_was_lost_is_settled_by_the_pod() -> None:
    conflict = (409, status(409, "Conflict", "pod p is already assigned to node n1"), "")
    async with talking(None, conflict, OK) as (client, _, _):
        await client.bind(POD, "n1")
    async with talking(None, conflict, OK) as (client, _, _):
        with pytest.raises(Conflict):
            await client.bind(POD, "another")
    async with talking(conflict) as (client, _, _):
        with pytest.raises(Conflict):
            await client.bind(POD, "n1")


async def test_delete_carries_its_preconditions() -> None:
    async with talking((200, b"{}", "")) as (client, server, _):
        await client.delete(Pod, "ns", "p", uid="u1", resource_version="5", grace_period_seconds=0)
    assert json.loads(server.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1", "resourceVersion": "5"},
        "gracePeriodSeconds": 0,
    }


async def test_delete_that_finds_nothing_after_a_lost_answer_has_succeeded() -> None:
    missing = (404, status(404, "NotFound"), "")
    async with talking(None, missing) as (client, _, _):
        await client.delete(Pod, "ns", "p")
    async with talking(missing) as (client, _, _):
        with pytest.raises(NotFound):
            await client.delete(Pod, "ns", "p")


async def test_eviction_that_a_budget_forbids_fails_at_once() -> None:
    refusal = (429, status(429, "TooManyRequests", "Cannot evict pod"), "retry-after: 10\r\n")
    async with talking(refusal) as (client, server, pauses):
        with pytest.raises(TooManyRequests) as caught:
            await client.evict(POD, grace_period_seconds=5)
    assert caught.value.retry_after == 10
    assert not pauses
    body = json.loads(server.requests[0].body)
    assert body["deleteOptions"]["preconditions"] == {"uid": "u1"}
    assert body["deleteOptions"]["gracePeriodSeconds"] == 5


async def test_eviction_and_delete_pass_on_further_options_with_the_uid_of_the_pod() -> None:
    options = {"gracePeriodSeconds": 7, "preconditions": {"resourceVersion": "9"}, "orphanDependents": None}
    expected = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 7,
        "preconditions": {"uid": "u1", "resourceVersion": "9"},
    }
    async with talking((201, b"{}", ""), (200, b"{}", "")) as (client, server, _):
        await client.evict(POD, grace_period_seconds=5, delete_options=options)
        await client.delete(Pod, "ns", "p", uid="u1", options=options)
    assert json.loads(server.requests[0].body)["deleteOptions"] == expected
    assert json.loads(server.requests[1].body) == expected


async def test_client_in_dry_run_changes_nothing() -> None:
    created = (201, POD_BYTES, "")
    async with talking(created, (200, b"{}", ""), created, dry_run=True) as (client, server, _):
        await client.create(POD, dry_run=True)
        await client.delete(Pod, "ns", "p")
        await client.bind(POD, "n1")
    assert all(request.target.count("dryRun=All") == 1 for request in server.requests)


async def test_update_is_conditional_on_the_version_it_carries() -> None:
    async with talking((200, b"{}", "")) as (client, server, _):
        await client.update_raw(resource_of(Pod), "ns", "p", {"metadata": {"resourceVersion": "5"}})
    assert server.requests[0].method == "PUT"


async def test_no_server_at_all_is_a_connection_failure_that_sent_nothing() -> None:
    async with talking() as (client, _, _):
        pass
    with pytest.raises(ConnectionFailed, match="GET /api/v1/namespaces/ns/pods/p") as caught:
        await client.get(Pod, "ns", "p")
    assert not caught.value.sent
