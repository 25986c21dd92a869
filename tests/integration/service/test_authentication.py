"""The debug API beyond loopback: the API server says who is calling."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from koordpy.embedded.apiserver import ApiServer, Fault
from tests.integration.service.stage import CRDS, Stage, serving

TOKEN = "a-token-that-nobody-may-read-in-a-log"
PATHS = ("/configz", "/metrics", "/apis/v1/decisions", "/apis/v1/nodes/n0", "/openapi.json", "/nowhere")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    server = ApiServer(crds=CRDS, tokens={TOKEN: {"username": "operator", "groups": ["ops"]}})
    async with server, serving(tmp_path, server=server, debug={"authentication": True}) as made:
        yield made


async def ask(stage: Stage, path: str, token: str = "") -> httpx.Response:
    return await stage.get(path, headers={"authorization": f"Bearer {token}"} if token else {})


async def test_requests_without_a_token_that_the_api_server_accepts_are_refused(stage: Stage) -> None:
    for path in PATHS:
        assert (await ask(stage, path)).status_code == 401
        answer = await ask(stage, path, "guessed")
        assert (answer.status_code, answer.text) == (401, "the token is not accepted\n")


async def test_a_known_token_gets_in(stage: Stage) -> None:
    await stage.add_node("n0")
    for path in ("/configz", "/metrics", "/apis/v1/decisions", "/openapi.json"):
        assert (await ask(stage, path, TOKEN)).status_code == 200, path
    assert (await ask(stage, "/nowhere", TOKEN)).status_code == 404


async def test_health_and_the_other_listeners_stay_open(stage: Stage) -> None:
    for path in ("/livez", "/readyz", "/healthz?verbose", "/readyz/ping"):
        assert (await ask(stage, path)).status_code == 200
    assert (await stage.call("filter", b"{}")).status_code == 400


@pytest.mark.parametrize("fault", [Fault(cut=True), Fault(status=500), Fault(status=403)])
async def test_requests_are_refused_while_the_api_server_does_not_answer(stage: Stage, fault: Fault) -> None:
    stage.server.faults = lambda method, path: fault if "reviews" in path else None
    answer = await ask(stage, "/configz", TOKEN)
    assert answer.status_code == 503
    assert answer.text.startswith("not authorized: the API server ")
    stage.server.faults = None
    assert (await ask(stage, "/configz", TOKEN)).status_code == 200


async def test_a_listener_on_every_address_may_be_opened_with_authentication(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes = {"authentication": True, "bindAddress": "0.0.0.0"}
    async with serving(tmp_path, parts=["debug"], debug=changes) as stage:
        port = stage.process.listeners["debug"].port
        answer = await stage.http.get(f"http://127.0.0.1:{port}/configz")
        assert answer.status_code == 401
    assert "bearer tokens cross the network in clear text" in caplog.text


async def test_tokens_travel_encrypted_where_the_listener_has_a_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes = {"authentication": True, "bindAddress": "0.0.0.0", "certDir": str(tmp_path / "certs")}
    async with serving(tmp_path, parts=["debug"], debug=changes) as stage:
        port = stage.process.listeners["debug"].port
        async with httpx.AsyncClient(verify=stage.trust(), trust_env=False) as client:
            assert (await client.get(f"https://127.0.0.1:{port}/configz")).status_code == 401
            assert (await client.get(f"https://127.0.0.1:{port}/readyz")).status_code == 200
    assert "clear text" not in caplog.text


async def test_no_secret_is_shown_or_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in (TOKEN, "guessed-token"):
        for path in PATHS:
            answer = await ask(stage, path, token)
            assert token not in answer.text
    assert TOKEN not in caplog.text
    assert "guessed-token" not in caplog.text
