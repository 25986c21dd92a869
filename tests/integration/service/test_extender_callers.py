"""Who may call the extender: processes in its network namespace, or those with a client certificate."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from koordpy.api.core import Pod
from koordpy.compose import listening
from koordpy.compose.part import PartError
from koordpy.embedded.scheduler.extenders import Extender
from koordpy.lib import certificates
from koordpy.scheduling.interface import ExtenderError
from koordpy.scheduling.profiles.config import ExtenderConfig
from tests.eventually import PATIENCE
from tests.integration.service.stage import Stage, binding, service_settings, serving, until
from tests.processes import serve_process

REFUSED = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "extender"


@pytest.fixture
async def secured(tmp_path: Path, folder: Path) -> AsyncIterator[Stage]:
    """A process whose extender listens on all addresses."""
    changes = {"bindAddress": "0.0.0.0", "certDir": str(folder)}
    async with serving(tmp_path, parts=["extender", "debug"], extender=changes) as stage:
        await stage.add_node("n1")
        yield stage


def url(stage: Stage) -> str:
    return f"https://127.0.0.1:{stage.process.listeners['extender'].port}"


def context(folder: Path, certificate: Path | None) -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=folder / certificates.CA_CERT)
    if certificate is not None:
        found.load_cert_chain(certificate / certificates.CLIENT_CERT, certificate / certificates.CLIENT_KEY)
    return found


async def post(stage: Stage, folder: Path, certificate: Path | None, path: str, body: Any) -> httpx.Response:
    tls = context(folder, certificate)
    async with httpx.AsyncClient(verify=tls, trust_env=False, timeout=PATIENCE) as client:
        return await client.post(url(stage) + path, json=body)


async def assert_untouched(stage: Stage) -> None:
    """No plugin has run, and the pod is where it was."""
    assert stage.extender.decisions.of("default", "p") == []
    assert (await stage.client.get(Pod, "default", "p")).spec.node_name == ""


def entry(stage: Stage, **tls: Any) -> Extender:
    document = {
        "urlPrefix": f"{url(stage)}/extender",
        "bindVerb": "bind",
        "enableHTTPS": True,
        "nodeCacheCapable": True,
        "tlsConfig": tls,
    }
    return Extender(ExtenderConfig.model_validate(document))


async def bind_through(extender: Extender, stage: Stage) -> None:
    try:
        await extender.bind(await stage.client.get(Pod, "default", "p"), "n1")
    finally:
        await extender.close()


@pytest.mark.parametrize("path", ["/extender/bind", "/extender/%62ind", "/extender/filter", "/readyz"])
async def test_callers_without_the_right_certificate_are_refused_before_anything_runs(
    secured: Stage, folder: Path, tmp_path: Path, path: str
) -> None:
    pod = await secured.add_pod("p")
    certificates.ensure(tmp_path / "other", ["localhost"], datetime.now(UTC), client="kube-scheduler")
    serving_pair = tmp_path / "serving"
    serving_pair.mkdir()
    shutil.copy(folder / certificates.SERVER_CERT, serving_pair / certificates.CLIENT_CERT)
    shutil.copy(folder / certificates.SERVER_KEY, serving_pair / certificates.CLIENT_KEY)
    for certificate in (None, tmp_path / "other", serving_pair):
        with pytest.raises(REFUSED):
            await post(secured, folder, certificate, path, binding(pod, "n1"))
    with pytest.raises(REFUSED):
        await secured.http.post(url(secured).replace("https", "http") + path, json=binding(pod, "n1"))
    await assert_untouched(secured)


async def test_the_client_certificate_in_the_folder_may_bind(secured: Stage, folder: Path) -> None:
    pod = await secured.add_pod("p")
    answer = await post(secured, folder, folder, "/extender/bind", binding(pod, "n1"))
    assert (answer.status_code, answer.json()) == (200, {"Error": ""})
    assert (await secured.client.get(Pod, "default", "p")).spec.node_name == "n1"
    for name in (certificates.CLIENT_KEY, certificates.SERVER_KEY, certificates.CA_KEY):
        assert (folder / name).stat().st_mode & 0o777 == 0o600


async def test_the_embedded_scheduler_presents_the_certificate_of_its_tls_config(
    secured: Stage, folder: Path
) -> None:
    await secured.add_pod("p")
    authority = {"caFile": str(folder / certificates.CA_CERT)}
    pair = {
        "certFile": str(folder / certificates.CLIENT_CERT),
        "keyFile": str(folder / certificates.CLIENT_KEY),
    }
    for without in (authority, {}, {"insecure": True}, {**authority, "serverName": "other", **pair}):
        with pytest.raises(ExtenderError):
            await bind_through(entry(secured, **without), secured)
    await assert_untouched(secured)
    await bind_through(entry(secured, **authority, **pair), secured)
    assert (await secured.client.get(Pod, "default", "p")).spec.node_name == "n1"


async def test_without_an_authority_the_scheduler_verifies_nothing_as_kube_scheduler_does(
    secured: Stage, folder: Path
) -> None:
    await secured.add_pod("p")
    pair = {"certFile": str(folder / "client.crt"), "keyFile": str(folder / "client.key")}
    await bind_through(entry(secured, **pair), secured)


async def test_authority_and_insecure_exclude_each_other(secured: Stage, folder: Path) -> None:
    with pytest.raises(ValueError, match="specifying a root certificates file with the insecure flag"):
        entry(secured, caFile=str(folder / certificates.CA_CERT), insecure=True)


async def test_a_replaced_authority_is_no_longer_trusted_and_its_successor_is(
    secured: Stage, folder: Path, tmp_path: Path
) -> None:
    pod = await secured.add_pod("p")
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    shutil.rmtree(folder)
    certificates.ensure(folder, ["127.0.0.1"], datetime.now(UTC), client="kube-scheduler")
    secured.process.listeners["extender"].reload()
    with pytest.raises(REFUSED):
        await post(secured, folder, old, "/extender/bind", binding(pod, "n1"))
    await assert_untouched(secured)
    answer = await post(secured, folder, folder, "/extender/bind", binding(pod, "n1"))
    assert answer.json() == {"Error": ""}


async def test_certificates_are_renewed_while_the_process_runs(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "RENEWAL_SECONDS", 0.01)
    changes = {"bindAddress": "0.0.0.0", "certDir": str(folder)}
    async with serving(tmp_path, parts=["extender", "debug"], extender=changes) as stage:
        await stage.add_node("n1")
        pod = await stage.add_pod("p")
        await asyncio.to_thread((folder / certificates.CLIENT_CERT).unlink)
        await until((folder / certificates.CLIENT_CERT).exists)
        answer = await post(stage, folder, folder, "/extender/bind", binding(pod, "n1"))
        assert answer.json() == {"Error": ""}


async def test_certificates_of_an_authority_may_be_limited_to_names(tmp_path: Path, folder: Path) -> None:
    """As with a cluster's own authority, which signs the certificates of kubelets too."""
    now = datetime.now(UTC)
    certificates.ensure(folder, ["127.0.0.1"], now, client="system:node:n1")
    shutil.copytree(folder, tmp_path / "kubelet")
    ca = certificates.KeyPair(
        (folder / certificates.CA_CERT).read_bytes(), (folder / certificates.CA_KEY).read_bytes()
    )
    pair = certificates.issue_client(ca, "system:kube-scheduler", now)
    (folder / certificates.CLIENT_CERT).write_bytes(pair.cert)
    (folder / certificates.CLIENT_KEY).write_bytes(pair.key)
    changes = {
        "certDir": str(folder),
        "clientCAFile": str(folder / certificates.CA_CERT),
        "clientNames": ["system:kube-scheduler"],
    }
    async with serving(tmp_path, parts=["extender", "debug"], extender=changes) as stage:
        await stage.add_node("n1")
        pod = await stage.add_pod("p")
        answer = await post(stage, folder, tmp_path / "kubelet", "/extender/bind", binding(pod, "n1"))
        assert answer.status_code == 403
        assert "the client certificate is for 'system:node:n1', expected system:kube-scheduler" in answer.text
        await assert_untouched(stage)
        assert (await post(stage, folder, folder, "/extender/bind", binding(pod, "n1"))).json() == {
            "Error": ""
        }


@pytest.mark.parametrize(
    "page",
    [
        {"content-type": "text/plain"},
        {"content-type": "text/plain", "host": "evil.example", "origin": "http://evil.example"},
        {"content-type": "application/json", "host": "evil.example"},
        {"content-type": "application/json", "origin": "http://evil.example"},
        {"content-type": "application/json", "origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/extender/bind", "/extender/%62ind"])
async def test_a_web_page_binds_nothing(stage: Stage, page: dict[str, str], path: str) -> None:
    pod = await stage.add_pod("p")
    answer = await stage.http.post(stage.url("extender") + path, headers=page, json=binding(pod, "n1"))
    assert answer.status_code in (403, 415)
    await assert_untouched(stage)


def test_beyond_loopback_callers_must_be_authenticated(tmp_path: Path, folder: Path) -> None:
    def start(**extender: Any) -> None:
        settings = service_settings("http://127.0.0.1:1", tmp_path, parts=["extender"], extender=extender)
        serve_process(settings)

    for address in ("0.0.0.0", "::", "10.0.0.1"):
        with pytest.raises(PartError) as refused:
            start(bindAddress=address)
        assert str(refused.value).startswith(
            f"extender.bindAddress: {address} is not loopback, and callers are"
        )
        assert "set extender.certDir, a folder in which koordpy creates" in str(refused.value)
    certificates.ensure(folder, ["localhost"], datetime.now(UTC))
    (folder / certificates.CA_KEY).unlink()
    with pytest.raises(PartError, match=r"set extender\.clientCAFile to the authority of kube-scheduler's"):
        start(bindAddress="0.0.0.0", certDir=str(folder))
    with pytest.raises(PartError, match=r"client certificates need TLS; set extender\.certDir too"):
        start(clientCAFile="ca.crt")
