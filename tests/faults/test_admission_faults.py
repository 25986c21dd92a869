"""The webhooks and callers that are malformed, hostile, huge, half sent or slow. All over TLS."""

import asyncio
import copy
import json
import random
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koordpy.admission.review import MAX_BODY
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.scheme import resource_of
from tests.eventually import PATIENCE
from tests.integration.service.stage import Stage, pod_document, review_of, serving, until
from tests.servers import fuzz
from tests.servers.caller import Answer, Caller, head

JSON = "content-type: application/json\r\n"
PATH = "/mutate-pod"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A service with a profile that matches pods labelled `batch`."""
    async with serving(tmp_path, parts=["admission"]) as made:
        resource = resource_of(ClusterColocationProfile)
        profile = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "batch"},
            "spec": {"selector": {"matchLabels": {"batch": "yes"}}, "qosClass": "BE", "labels": {"by": "us"}},
        }
        await made.client.create_raw(resource, "", profile)
        await until(lambda: len(made.process.cluster.store(ClusterColocationProfile)) == 1)
        yield made


def caller(stage: Stage) -> Caller:
    return Caller(stage.url("admission"), stage.trust())


def batch_pod() -> dict[str, Any]:
    return pod_document("p", labels={"batch": "yes"}, annotations={"a": "b"})


def verdict(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    response: dict[str, Any] = json.loads(answer.body)["response"]
    return response


async def still_works(stage: Stage) -> None:
    response = (await stage.review(review_of(batch_pod()))).json()["response"]
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"


async def test_no_body_breaks_the_webhook(stage: Stage) -> None:
    """Every answer is an AdmissionReview that allows or has a reason; none is an internal error."""
    review = review_of(batch_pod())
    old = copy.deepcopy(review)
    old["request"] |= {"operation": "UPDATE", "oldObject": batch_pod(), "dryRun": True}
    verdicts: dict[int, int] = {}
    async with caller(stage) as connection:
        for body in fuzz.bodies(random.Random("admission"), [review, old], 3000):
            response = verdict(await connection.post(PATH, body, JSON))
            code = response["status"]["code"]
            verdicts[code] = verdicts.get(code, 0) + 1
            assert code in (200, 400, 403, 413, 422), (response, body[:2000])
            assert response["allowed"] is (code == 200)
            if code != 200:
                assert response["status"]["message"]
                assert "patch" not in response
    assert {200, 400} <= set(verdicts)
    await still_works(stage)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "request body is empty"),
        (b"{", "not JSON"),
        (b"[]", "AdmissionReview"),
        (b'{"kind":"Pod","apiVersion":"v1"}', "expected kind AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2"}', "admission.k8s.io/v2"),
        (b'{"request":{"uid":1}}', "uid"),
    ],
)
async def test_a_malformed_review_is_answered_with_what_is_wrong(
    stage: Stage, body: bytes, message: str
) -> None:
    async with caller(stage) as connection:
        response = verdict(await connection.post(PATH, body, JSON))
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert message in response["status"]["message"]


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/json; charset=utf-8", "application/yaml", "\xff"]
)
async def test_another_content_type_is_named(stage: Stage, content_type: str) -> None:
    header = f"content-type: {content_type}\r\n"
    body = json.dumps(review_of(batch_pod())).encode()
    async with caller(stage) as connection:
        sent = head(PATH, len(body), "content-type: MARK\r\n")
        await connection.send(sent.replace(b"content-type: MARK\r\n", header.encode("latin-1")))
        await connection.send(body)
        response = verdict(await connection.answer())
    assert response["status"]["code"] == 400
    assert response["status"]["message"].startswith(f"contentType={content_type}, expected application/json")


async def test_a_pod_just_below_the_limit_is_admitted_and_one_above_it_refused(stage: Stage) -> None:
    pod = batch_pod()
    review = review_of(pod)
    room = MAX_BODY - len(json.dumps(review).encode())
    pod["metadata"]["annotations"]["a"] = "b" + "x" * room
    body = json.dumps(review).encode()
    assert len(body) == MAX_BODY
    async with caller(stage) as connection:
        assert verdict(await connection.post(PATH, body, JSON))["allowed"] is True
        response = verdict(await connection.post(PATH, body + b" ", JSON))
        assert response["status"] == {
            "code": 413,
            "message": f"request entity is too large; limit is {MAX_BODY} bytes",
        }
        assert verdict(await connection.post(PATH, body, JSON))["allowed"] is True  # same connection


async def test_an_endless_body_is_cut_off(stage: Stage) -> None:
    async with caller(stage) as connection:
        start = f"POST {PATH} HTTP/1.1\r\nhost: t\r\n{JSON}transfer-encoding: chunked\r\n\r\n".encode()
        await connection.send(start)
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"

        async def endless() -> None:
            while True:
                await connection.send(chunk)

        # The answer may be lost: a peer that is still sending when the connection closes gets a reset, and
        # with it what it has not read yet. The server must stop reading.
        sending = asyncio.create_task(endless())
        await asyncio.wait({sending}, timeout=PATIENCE)
        assert sending.done()
        assert isinstance(sending.exception(), ConnectionError)
        try:
            answer = await connection.answer(2)
        except (ConnectionError, EOFError, TimeoutError):
            answer = None
        assert answer is None or verdict(answer)["status"]["code"] == 413
    await still_works(stage)


async def test_half_sent_bodies_are_no_admissions(stage: Stage) -> None:
    body = json.dumps(review_of(batch_pod())).encode()
    for length in (0, 1, len(body) // 2, len(body) - 1):
        async with caller(stage) as connection:
            await connection.send(head(PATH, len(body), JSON) + body[:length])
    await still_works(stage)
    [chain] = {id(chain.history): chain for chain in stage.chains.values()}.values()
    assert len(list(chain.history)) == 1


async def test_slow_callers_get_their_answer_without_delaying_others(stage: Stage) -> None:
    body = json.dumps(review_of(batch_pod())).encode()
    slow = [caller(stage) for _ in range(20)]
    for connection in slow:
        await connection.__aenter__()
        await connection.send(head(PATH, len(body), JSON) + body[:-1])
    await still_works(stage)
    for connection in slow:
        await connection.send(body[-1:])
        assert verdict(await connection.answer())["allowed"] is True
        connection.hang_up()


async def test_callers_that_never_finish_the_handshake_delay_no_others(stage: Stage) -> None:
    listener = stage.process.listeners["admission"]
    silent = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(20)]
    await still_works(stage)
    for connection in silent:
        connection.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_plain_http_and_old_tls_are_refused(stage: Stage) -> None:
    listener = stage.process.listeners["admission"]
    async with Caller(f"http://127.0.0.1:{listener.port}") as plain:
        await plain.send(head(PATH, 2, JSON) + b"{}")
        assert await plain.is_closed()
    old = stage.trust()
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", listener.port, ssl=old)
    await still_works(stage)


async def test_other_methods_and_paths_are_distinguished_from_verdicts(stage: Stage) -> None:
    async with caller(stage) as connection:
        await connection.send(f"GET {PATH} HTTP/1.1\r\nhost: t\r\n\r\n".encode())
        answer = await connection.answer()
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        for path in ("/mutate-nothing", "/mutate-pod/", "//mutate-pod", "/%00", "/" + "x" * 10_000):
            assert (await connection.post(path, b"{}", JSON)).status in (404, 405, 307), path
