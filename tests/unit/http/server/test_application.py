from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Query

from koordpy.http.server.application import Application


async def hot(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hot"})


def client(app):
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://t"
    )


def application(is_ready=lambda: True):
    routes = APIRouter()

    @routes.get("/cold")
    def cold() -> str:
        return "cold"

    @routes.get("/counted")
    def counted(limit: Annotated[int, Query(ge=1)] = 1) -> int:
        return limit

    @routes.get("/broken")
    def broken() -> str:
        raise RuntimeError("secret detail")

    return Application("test", [routes], {"/hot": hot}, is_ready)


async def test_hot_paths_and_routes_live_side_by_side():
    async with client(application()) as http:
        assert (await http.post("/hot")).text == "hot"
        assert (await http.get("/cold")).json() == "cold"
        assert (await http.get("/nowhere")).status_code == 404


async def test_hot_paths_are_closed_until_ready_and_open_from_then_on():
    ready = [False]
    async with client(application(lambda: ready[0])) as http:
        refused = await http.post("/hot")
        assert (refused.status_code, "not ready" in refused.text) == (503, True)
        assert (await http.get("/cold")).status_code == 200
        ready[0] = True
        assert (await http.post("/hot")).status_code == 200
        ready[0] = False
        assert (await http.post("/hot")).status_code == 200


async def test_an_internal_error_shows_no_internals():
    async with client(application()) as http:
        answer = await http.get("/broken")
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nowhere", 404, "there is no /nowhere; /openapi.json lists what there is"),
        ("POST", "/cold", 405, "/cold: got POST, expected GET"),
        ("GET", "/counted?limit=0", 400, 'limit: got "0", expected greater than or equal to 1'),
        ("GET", "/counted?limit=many", 400, 'limit: got "many", expected a valid integer'),
    ],
)
async def test_the_refusal_of_a_wrong_request_names_what_was_expected(method, path, status, message):
    async with client(application()) as http:
        answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["message"].startswith(message)
