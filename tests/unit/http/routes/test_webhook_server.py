"""Endpoints of the webhook server besides the webhooks."""

import json
from typing import Any

import httpx
import pytest

from koordpy.admission.review import MAX_BODY
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.http.routes import webhook_server
from koordpy.http.routes.webhook_server import convert
from koordpy.http.server.application import Application


def review(*objects: dict[str, Any], version: str = "v1") -> bytes:
    request = {"uid": "u", "desiredAPIVersion": "g/v2", "objects": list(objects)}
    api_version = f"apiextensions.k8s.io/{version}"
    return json.dumps({"apiVersion": api_version, "kind": "ConversionReview", "request": request}).encode()


def client() -> httpx.AsyncClient:
    no_quotas: QuotaTopology | None = None
    routers = [webhook_server.router(lambda: no_quotas)]
    application: Any = Application("webhooks", routers, {"/convert": webhook_server.Conversion()})
    transport = httpx.ASGITransport(app=application)
    return httpx.AsyncClient(transport=transport, base_url="http://webhooks")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_objects_of_a_kind_without_conversions_fail_with_its_name(version: str) -> None:
    answer = convert(review({"apiVersion": "g/v1", "kind": "Thing"}, version=version))
    assert answer is not None
    assert json.loads(answer) == {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{version}",
        "response": {
            "uid": "u",
            "convertedObjects": [],
            "result": {
                "status": "Failure",
                "message": "no conversion of kind Thing of version g/v1 to g/v2 is registered",
            },
        },
    }


def test_without_objects_there_is_nothing_that_could_fail() -> None:
    answer = convert(review())
    assert answer is not None
    assert json.loads(answer)["response"]["result"] == {"status": "Success"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"request":null}', b'{"request":1}', b"\xff"])
async def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    async with client() as caller:
        assert (await caller.post("/convert", content=body)).status_code == 400


async def test_a_review_may_not_be_larger_than_an_admission_review() -> None:
    async with client() as caller:
        assert (await caller.post("/convert", content=b" " * (MAX_BODY + 1))).status_code == 413


async def test_conversion_needs_post() -> None:
    async with client() as caller:
        assert (await caller.post("/convert", content=review())).status_code == 200
        assert (await caller.get("/convert")).status_code == 405


async def test_health_is_that_it_answers() -> None:
    async with client() as caller:
        answer = await caller.get("/healthz")
        assert (answer.status_code, answer.text) == (200, "ok")


async def test_quotas_that_are_not_followed_are_not_shown() -> None:
    async with client() as caller:
        assert (await caller.get("/elasticQuota")).status_code == 404
