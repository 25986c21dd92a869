"""Certificates that replicas share, renew and replace while they are called."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from koordpy.admission.serving import generator
from koordpy.admission.serving.artifacts import OVERLAP, Artifacts
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import Fault
from koordpy.lib import certificates
from koordpy.lib.certificates import CertificateError
from koordpy.lib.clock import FakeClock
from tests.eventually import PATIENCE
from tests.integration.webhooks.callers import calling
from tests.integration.webhooks.grounds import (
    MUTATING,
    NAMESPACE,
    SECRET_NAME,
    SECRETS,
    Grounds,
    grounds,
    until,
)
from tests.processes import webhooks_of

SOON: dict[str, Any] = {"certificates": {"propagation": "3s"}}


async def test_replicas_that_start_together_share_what_the_first_one_made(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        waiting, all_wait = 0, asyncio.Event()

        def hold(method: str, path: str) -> Fault | None:
            nonlocal waiting
            if method == "POST" and path.endswith("/secrets"):
                waiting += 1
                if waiting == 5:  # all of them have found none
                    all_wait.set()
                return Fault(held=all_wait)
            return None

        ground.server.faults = hold
        services = [ground.make(name) for name in "abcde"]
        try:
            await asyncio.gather(*(service.start() for service in services))
            await asyncio.gather(*(service.wait_ready(PATIENCE) for service in services))
            assert waiting == 5
            secret = await ground.secret()
            assert {_served(ground, name) for name in "abcde"} == {secret.cert}
            assert all([await _accepts(ground, service) for service in services])
        finally:
            await asyncio.gather(*(service.stop() for service in services))


async def test_replicas_that_renew_together_agree(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        async with ground.replica():
            pass
        old = await ground.secret()
        await ground.write_secret(Artifacts(old.ca_key, old.ca_cert, b"", b""))
        services = [ground.make(name) for name in "bcde"]
        try:
            await asyncio.gather(*(service.start() for service in services))
            await asyncio.gather(*(service.wait_ready(PATIENCE) for service in services))
            secret = await ground.secret()
            assert secret.ca_cert == old.ca_cert
            assert {_served(ground, name) for name in "bcde"} == {secret.cert}
        finally:
            await asyncio.gather(*(service.stop() for service in services))


async def test_labels_and_foreign_keys_of_a_secret_survive_a_renewal(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET_NAME, "namespace": NAMESPACE, "labels": {"app": "x"}},
            "data": {"other": "b3RoZXI="},
        }
        await ground.client.create_raw(SECRETS, NAMESPACE, document)
        async with ground.replica():
            found = await ground.client.get_raw(SECRETS, NAMESPACE, SECRET_NAME)
            assert found["metadata"]["labels"] == {"app": "x"}
            assert found["data"]["other"] == "b3RoZXI="
            assert set(found["data"]) == {
                "other", "ca-key.pem", "ca-cert.pem", "key.pem", "tls.key", "cert.pem", "tls.crt"
            }  # fmt: skip


async def test_a_certificate_is_renewed_half_a_year_before_its_end(tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC))
    async with grounds(tmp_path) as ground:
        async with ground.replica(clock=clock):
            first = await ground.secret()
        clock.advance(timedelta(days=3640 - 190).total_seconds())
        async with ground.replica("b", clock=clock):
            assert await ground.secret() == first
        clock.advance(timedelta(days=20).total_seconds())
        service = ground.make("c", clock)
        await webhooks_of(service).prepare()
        second = await ground.secret()
        assert second.ca_cert != first.ca_cert  # it would end within a year, too
        assert generator.problem(second, "127.0.0.1", clock.now()) == ""
        await service.stop()


@pytest.mark.parametrize("how", ["delete", "overwrite", "renew"])
async def test_no_call_fails_while_the_authority_is_replaced(tmp_path: Path, how: str) -> None:
    async with (
        grounds(tmp_path) as ground,
        ground.replica("a", **SOON) as a,
        ground.replica("b", **SOON) as b,
    ):
        # Both replicas register their own address; the callers call both, as a service would have them.
        urls = [service.listeners["admission"].url for service in (a, b)]
        old = await ground.secret()
        async with calling(ground, lambda: urls) as callers:
            await until(lambda: callers.answered > 50)
            if how == "delete":
                await ground.client.delete_raw(SECRETS, NAMESPACE, SECRET_NAME)
            elif how == "overwrite":
                fresh = await asyncio.to_thread(generator.generate, "127.0.0.1", datetime.now(UTC))
                await ground.write_secret(fresh)
            else:
                await ground.write_secret(Artifacts(b"", old.ca_cert, old.key, b""))

            async def replaced() -> bool:
                secret = await ground.secret_or_none()
                if secret is None or secret.cert == old.cert:
                    return False
                return all(_served(ground, name) == secret.cert for name in "ab")

            await until(replaced)
            answered = callers.answered
            await until(lambda: callers.answered > answered + 100)
        assert callers.failures == []
        secret = await ground.secret()
        assert secret.ca_cert != old.ca_cert
        assert all([await _accepts(ground, service, secret.ca_cert) for service in (a, b)])


async def test_a_replaced_authority_is_forgotten_after_a_while(tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC))
    async with grounds(tmp_path) as ground, ground.replica(clock=clock, **SOON) as service:
        old = await ground.secret()
        await ground.client.delete_raw(SECRETS, NAMESPACE, SECRET_NAME)

        async def both_are_trusted() -> bool:
            fresh = await ground.secret_or_none()
            return fresh is not None and await _bundle_is(ground, fresh.ca_cert + old.ca_cert)

        await until(both_are_trusted)
        fresh = (await ground.secret()).ca_cert
        await until(lambda: _accepts(ground, service, fresh))
        clock.advance(OVERLAP.total_seconds() + 1)
        patch = {"metadata": {"labels": {"look": "again"}}}  # instead of a minute's wait
        await ground.client.patch_raw(SECRETS, NAMESPACE, SECRET_NAME, patch)
        await until(lambda: _bundle_is(ground, fresh))


async def test_no_call_fails_while_a_replica_goes(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground, ground.replica("a") as a:
        b = ground.make("b", shutdownDelay="5s")
        await b.start()
        await b.wait_ready(PATIENCE)
        going = asyncio.Event()

        def urls() -> list[str]:
            return [service.listeners["admission"].url for service in ((a,) if going.is_set() else (a, b))]

        async with calling(ground, urls) as callers:
            await until(lambda: callers.answered > 50)
            stopping = asyncio.create_task(b.stop())
            await until(lambda: "shutdown" in b.health.failures(b.health.ready))
            answered = callers.answered
            await until(lambda: callers.answered > answered + 8)  # some of them at the one that goes
            going.set()
            await stopping
            answered = callers.answered
            await until(lambda: callers.answered > answered + 20)
        assert callers.failures == []


async def test_a_folder_alone_is_renewed_and_registered(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        mode = {"mode": "fs"}
        async with ground.replica(certificates=mode) as service:
            assert await _accepts(ground, service)
            first = _served(ground, "a")
            names = {path.name for path in (tmp_path / "a" / "certs").iterdir() if path.name[0] != "."}
            assert names == {"ca-key.pem", "ca-cert.pem", "key.pem", "tls.key", "cert.pem", "tls.crt"}
        async with ground.replica(certificates=mode) as service:
            assert _served(ground, "a") == first
            assert await _accepts(ground, service)


async def test_a_given_certificate_is_registered_and_followed(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        folder = tmp_path / "a" / "certs"
        _give(folder)
        given: dict[str, Any] = {
            "certificates": {"mode": "given"},
            "admission": {"registration": {"enabled": True}},
        }
        async with ground.replica(**given) as service:
            assert await _accepts(ground, service)
            _give(folder)
            fresh = (folder / "ca.crt").read_bytes()

            async def followed() -> bool:
                return await _accepts(ground, service) and await _bundle_is(ground, fresh)

            await until(followed)
            assert not (folder / "ca-key.pem").exists()


async def test_a_certificate_from_another_source_is_not_overwritten(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        _give(tmp_path / "a" / "certs")
        with pytest.raises(CertificateError, match=r"tls.crt without ca-key.pem.*mode to given"):
            ground.make()


async def test_readiness_means_that_the_certificate_is_accepted(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        folder = tmp_path / "a" / "certs"
        _give(folder, "other.example")
        service = ground.make(certificates={"mode": "given"})
        try:
            await service.start()

            def failures() -> dict[str, str]:
                return service.health.failures(service.health.ready)

            await until(lambda: "GET" in failures().get("webhook-ready", "") and len(failures()) == 1)
            with pytest.raises(TimeoutError, match=r"webhook-ready: GET /healthz as 127\.0\.0\.1: "):
                await service.wait_ready(0.2)
            url = service.listeners["admission"].url
            async with httpx.AsyncClient(verify=False, trust_env=False) as client:
                answer = await client.get(f"{url}/readyz?verbose")
                assert answer.status_code == 503
                assert "[-]webhook-ready failed: GET /healthz as 127.0.0.1" in answer.text
                assert (await client.get(f"{url}/healthz")).text == "ok"
                _give(folder)

                async def ready() -> bool:
                    return (await client.get(f"{url}/readyz")).status_code == 200

                await until(ready)
        finally:
            await service.stop()


def _give(folder: Path, host: str = "127.0.0.1") -> None:
    """Put a certificate into a folder as cert-manager would."""
    now = datetime.now(UTC)
    ca = certificates.make_ca("given", now)
    pair = certificates.issue(ca, [host], now)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("ca.crt", ca.cert), ("tls.key", pair.key), ("tls.crt", pair.cert)):
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").replace(folder / name)


def _served(ground: Grounds, name: str) -> bytes:
    return (ground.folder / name / "certs" / "tls.crt").read_bytes()


async def _bundle_is(ground: Grounds, ca_cert: bytes) -> bool:
    webhooks = await ground.webhooks(MUTATING)
    return {hook["clientConfig"]["caBundle"] for hook in webhooks.values()} == {
        base64.b64encode(ca_cert).decode()
    }


async def _accepts(ground: Grounds, service: Process, ca_cert: bytes | None = None) -> bool:
    """Return whether who trusts the cluster's caBundle (or just this authority) can call a replica."""
    trust = await ground.trust() if ca_cert is None else ssl.create_default_context(cadata=ca_cert.decode())
    async with httpx.AsyncClient(verify=trust, trust_env=False) as client:
        try:
            return (await client.get(f"{service.listeners['admission'].url}/healthz")).status_code == 200
        except httpx.HTTPError:
            return False
