"""Readiness by a call over TLS."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from koordpy.admission.serving.self_call import SelfCall
from koordpy.lib import certificates, server_tls
from tests.servers.raw import Exchange, RawServer

NOW = datetime.now(UTC)


async def fails(exchange: Exchange) -> None:
    await exchange.reply(500)


def give(folder: Path, hosts: list[str], ca_name: str = "ca.crt") -> None:
    folder.mkdir(exist_ok=True)
    ca = certificates.make_ca("test", NOW)
    pair = certificates.issue(ca, hosts, NOW)
    (folder / "tls.crt").write_bytes(pair.cert)
    (folder / "tls.key").write_bytes(pair.key)
    if ca_name:
        (folder / ca_name).write_bytes(ca.cert)


@pytest.mark.parametrize("ca_name", ["ca.crt", "ca-cert.pem", ""])
async def test_any_answer_under_an_accepted_certificate_is_good(tmp_path: Path, ca_name: str) -> None:
    give(tmp_path, ["localhost", "127.0.0.1"], ca_name)
    async with RawServer(fails, tls=server_tls.server_context(tmp_path)) as server:
        call = SelfCall(lambda: server.url, tmp_path, name="localhost")
        assert call.problem == "the webhook server has not been called yet"
        assert await call.call() is None
        assert [request.target for request in server.requests] == ["/healthz"]


@pytest.mark.parametrize("hosts", [["service.ns.svc"], ["10.1.2.3"], ["*.a.example"]])
async def test_by_default_the_name_is_that_of_the_certificate(tmp_path: Path, hosts: list[str]) -> None:
    give(tmp_path, hosts)
    async with RawServer(fails, tls=server_tls.server_context(tmp_path)) as server:
        assert await SelfCall(lambda: server.url, tmp_path).call() is None


async def test_a_certificate_for_another_name_is_not_accepted(tmp_path: Path) -> None:
    give(tmp_path, ["other"])
    async with RawServer(fails, tls=server_tls.server_context(tmp_path)) as server:
        problem = await SelfCall(lambda: server.url, tmp_path, name="localhost").call()
        assert problem is not None
        assert problem.startswith("GET /healthz as localhost: ")
        assert server.requests == []


async def test_a_certificate_of_another_authority_is_not_accepted(tmp_path: Path) -> None:
    give(tmp_path / "served", ["localhost"])
    give(tmp_path / "trusted", ["localhost"])
    async with RawServer(fails, tls=server_tls.server_context(tmp_path / "served")) as server:
        problem = await SelfCall(lambda: server.url, tmp_path / "trusted", name="localhost").call()
        assert problem is not None
        assert "certificate" in problem


async def test_the_authority_is_read_again_for_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koordpy.admission.serving.self_call.FRESH", 0)
    give(tmp_path, ["localhost"])
    context = server_tls.server_context(tmp_path)

    def reload() -> None:
        server_tls.load_server_certificate(context, tmp_path)

    async with RawServer(fails, tls=context) as server:
        call = SelfCall(lambda: server.url, tmp_path, name="localhost", reload=reload)
        assert await call.call() is None
        give(tmp_path, ["localhost"])
        assert await call.call() is None


async def test_calls_in_quick_succession_are_one(tmp_path: Path) -> None:
    give(tmp_path, ["localhost"])
    async with RawServer(fails, tls=server_tls.server_context(tmp_path)) as server:
        call = SelfCall(lambda: server.url, tmp_path)
        for _ in range(5):
            await call.call()
        assert len(server.requests) == 1


@pytest.mark.parametrize("content", [None, b"", b"rubbish", b"\xff"])
async def test_a_folder_without_a_certificate_is_a_problem(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "ca.crt").write_bytes(content)
    problem = await SelfCall(lambda: "https://127.0.0.1:1", tmp_path, name="localhost").call()
    assert problem is not None
    assert problem.startswith("cannot read the certificates to trust: ")


async def test_a_closed_port_is_a_problem(tmp_path: Path) -> None:
    give(tmp_path, ["localhost"])
    problem = await SelfCall(lambda: "https://127.0.0.1:1", tmp_path, name="localhost").call()
    assert problem is not None
    assert problem.startswith("GET /healthz as localhost: ")
