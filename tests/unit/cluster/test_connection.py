"""The server and credentials of connections, and the reload of credentials."""

import json
import re
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from koordpy.cluster.connection import Access, Connection, ConnectionConfigError, kubeconfig_loader
from koordpy.lib import certificates, server_tls
from koordpy.lib.http1 import NotConnected
from tests.servers.raw import Exchange, Handler, RawServer


async def echo_authorization(exchange: Exchange) -> None:
    await exchange.reply(200, exchange.request.headers.get("authorization", "").encode())


def only(*tokens: str) -> Handler:
    """Return a handler that accepts these tokens."""

    async def handler(exchange: Exchange) -> None:
        known = exchange.request.headers.get("authorization", "").removeprefix("Bearer ") in tokens
        await exchange.reply(200 if known else 401, b"")

    return handler


class Time:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_credentials_are_sent_and_never_shown() -> None:
    async with RawServer(echo_authorization) as server:
        access = Access(server.url, "Bearer s3cret", proxy_url="")
        connection = Connection.to(access)
        assert (await connection.request("GET", "/")).body == b"Bearer s3cret"
        assert "s3cret" not in repr(connection) + repr(access)
        await connection.close()


async def test_rotated_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    time = Time()
    async with RawServer(echo_authorization) as server:
        connection = Connection(
            lambda _: Access(server.url, f"Bearer {file.read_text().strip()}"), monotonic=time
        )
        assert (await connection.request("GET", "/")).body == b"Bearer first"
        file.write_text("second\n")
        assert (await connection.request("GET", "/")).body == b"Bearer first"
        time.now += 61
        assert (await connection.request("GET", "/")).body == b"Bearer second"
        await connection.close()
    assert server.connections == 1


async def test_401_reads_credentials_anew_and_repeats_the_request_once() -> None:
    tokens = ["old", "new"]
    time = Time()
    async with RawServer(only("new")) as server:
        connection = Connection(lambda _: Access(server.url, f"Bearer {tokens.pop(0)}"), monotonic=time)
        time.now += 10
        assert (await connection.request("POST", "/")).status == 200
        assert len(server.requests) == 2
        await connection.close()


async def test_401_with_unchanged_credentials_is_returned() -> None:
    loads: list[bool] = []
    time = Time()

    async with RawServer(only()) as server:

        def load(force: bool) -> Access:
            loads.append(force)
            return Access(server.url, "Bearer x")

        connection = Connection(load, monotonic=time)
        time.now += 10
        for _ in range(3):
            assert (await connection.request("GET", "/")).status == 401
        await connection.close()
    assert loads == [True, True], "an exec plugin must not be run for every refused request"


async def test_credentials_that_cannot_be_read_again_leave_the_old_ones() -> None:
    time = Time()
    async with RawServer(echo_authorization) as server:
        accesses = [Access(server.url, "Bearer x")]
        connection = Connection(lambda _: accesses.pop(), monotonic=time)
        time.now += 100
        assert (await connection.request("GET", "/")).body == b"Bearer x"
        await connection.close()


async def test_service_account_of_a_pod_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates.ensure(tmp_path, ["127.0.0.1"], datetime.now(UTC) - timedelta(days=1))
    (tmp_path / "token").write_text("sa-token")
    (tmp_path / "ca.crt").write_bytes(certificates.ca_bundle(tmp_path))
    async with RawServer(echo_authorization, tls=server_tls.server_context(tmp_path)) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        connection = Connection.in_cluster(directory=tmp_path)
        assert (await connection.request("GET", "/")).body == b"Bearer sa-token"
        await connection.close()


async def test_missing_token_of_a_pod_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConnectionConfigError, match="token: No such file"):
        Connection.in_cluster(directory=tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ConnectionConfigError, match="not in a pod"):
        Connection.in_cluster(directory=tmp_path)


def write_kubeconfig(path: Path, server: str, user: dict[str, object], **cluster: object) -> Path:
    file = path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "v"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}, {"name": "v", "user": {"token": "of-v"}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


async def test_kubeconfig_gives_server_and_token_of_a_context(tmp_path: Path) -> None:
    async with RawServer(echo_authorization) as server:
        file = write_kubeconfig(tmp_path, server.url, {"token": "of-u"})
        for context, token in ((None, b"Bearer of-u"), ("other", b"Bearer of-v")):
            connection = Connection.from_kubeconfig(str(file), context)
            assert (await connection.request("GET", "/")).body == token
            await connection.close()
    for context, told in (("nowhere", "expected one of "), ("othre", "did you mean other?")):
        with pytest.raises(ConnectionConfigError, match=f"it has no context {context}; {re.escape(told)}"):
            Connection.from_kubeconfig(str(file), context)


def test_kubeconfig_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ConnectionConfigError, match=r"^kubeconfig ~/\.kube/config: no such file; "):
        Connection.from_kubeconfig()
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(
        ConnectionConfigError, match=r"^kubeconfig \$KUBECONFIG \(.*/a:.*/b\): no such file; "
    ):
        Connection.from_kubeconfig()


async def test_exec_plugin_is_run_again_when_its_token_is_refused(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    plugin.write_text(
        "#!/bin/sh\n"
        f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {tmp_path}/n\n"
        f'echo \'{json.dumps(credential)[:-1]}, "status": {{"token": "t\'$n\'"}}}}\'\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    time = Time()
    user: dict[str, object] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    }
    async with RawServer(only("t2")) as server:
        file = write_kubeconfig(tmp_path, server.url, user)
        connection = Connection(kubeconfig_loader(str(file), None), monotonic=time)
        time.now += 10
        assert (await connection.request("GET", "/")).status == 200
        await connection.close()


async def test_tls_settings_of_a_kubeconfig_are_followed(tmp_path: Path) -> None:
    certificates.ensure(tmp_path, ["api.example"], datetime.now(UTC) - timedelta(days=1))
    serving = server_tls.server_context(tmp_path)
    ca = {"certificate-authority": str(tmp_path / certificates.CA_CERT)}
    async with RawServer(echo_authorization, tls=serving) as server:
        for cluster, works in (
            (ca, False),
            ({**ca, "tls-server-name": "api.example"}, True),
            ({"insecure-skip-tls-verify": True}, True),
            ({"tls-server-name": "api.example"}, False),
        ):
            file = write_kubeconfig(tmp_path, server.url, {"token": "t"}, **cluster)
            connection = Connection.from_kubeconfig(str(file))
            if works:
                assert (await connection.request("GET", "/")).status == 200
            else:
                with pytest.raises(NotConnected, match="certificate"):
                    await connection.request("GET", "/")
            await connection.close()


async def test_client_certificate_of_a_kubeconfig_is_shown_to_the_server(tmp_path: Path) -> None:
    now = datetime.now(UTC) - timedelta(days=1)
    certificates.ensure(tmp_path, ["127.0.0.1"], now)
    serving = server_tls.server_context(tmp_path)
    serving.load_verify_locations(tmp_path / certificates.CA_CERT)
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS
    made = make_client_certificate(tmp_path, now)
    async with RawServer(echo_authorization, tls=serving) as server:
        user: dict[str, object] = {"client-certificate": str(made[0]), "client-key": str(made[1])}
        ca = str(tmp_path / certificates.CA_CERT)
        file = write_kubeconfig(tmp_path, server.url, user, **{"certificate-authority": ca})
        connection = Connection.from_kubeconfig(str(file))
        assert (await connection.request("GET", "/")).status == 200
        await connection.close()


def make_client_certificate(directory: Path, now: datetime) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    authority = x509.load_pem_x509_certificate((directory / certificates.CA_CERT).read_bytes())
    signer = serialization.load_pem_private_key((directory / certificates.CA_KEY).read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    cert = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=10))
        .sign(signer, hashes.SHA256())
    )
    cert_file, key_file = directory / "me.crt", directory / "me.key"
    cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_file, key_file
