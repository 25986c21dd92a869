import os
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from koordpy.lib import certificates as c
from koordpy.lib import server_tls

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_ensure_makes_a_pair_that_serves_its_hosts(tmp_path):
    tmp_path = tmp_path / "new" / "folder"
    ca = c.ensure(tmp_path, ["127.0.0.1", "svc.ns.svc"], NOW)
    assert x509.load_pem_x509_certificate(ca).subject.rfc4514_string() == "CN=koordpy-ca"
    pair = c.KeyPair((tmp_path / c.SERVER_CERT).read_bytes(), (tmp_path / c.SERVER_KEY).read_bytes())
    assert c.problem(pair, ca, ["127.0.0.1"], NOW) == ""
    assert c.problem(pair, ca, ["svc.ns.svc"], NOW) == ""
    assert c.problem(pair, ca, ["127.0.0.1", "other"], NOW) == "not for other"
    stranger = c.make_ca("x", NOW).cert
    assert c.problem(pair, stranger, ["svc.ns.svc"], NOW).startswith("not signed by its CA")
    late = NOW + timedelta(days=3651)
    assert c.problem(pair, ca, ["svc.ns.svc"], late).startswith("the CA ends")


def test_a_certificate_serves_from_its_first_to_its_last_second():
    ca = c.make_ca("x", NOW, begins=NOW)
    pair = c.issue(ca, ["a", "b"], NOW, begins=NOW)
    second, end = timedelta(seconds=1), NOW + c.LIFETIME
    for at, good in ((NOW - second, False), (NOW, True), (end, True), (end + second, False)):
        assert (c.problem(pair, ca.cert, ["a"], at) == "") is good
        assert c.is_valid(pair.cert, at) is good
        assert c.can_sign(ca, at) is good
    assert c.problem(pair, ca.cert, ["c", "a", "d"], NOW) == "not for c, d"


def test_a_signature_that_does_not_fit_is_named():
    ca, other = c.make_ca("x", NOW), c.make_ca("x", NOW)
    pair = c.issue(ca, ["a"], NOW)
    assert c.problem(pair, other.cert, ["a"], NOW) == "not signed by its CA: InvalidSignature"


@pytest.mark.parametrize(
    ("usages", "problem"),
    [
        ([ExtendedKeyUsageOID.SERVER_AUTH], ""),
        ([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE], ""),
        ([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH], ""),
        ([ExtendedKeyUsageOID.CLIENT_AUTH], "not for servers"),
        ([], ""),
    ],
)
def test_a_certificate_for_other_purposes_is_replaced(
    usages: list[x509.ObjectIdentifier], problem: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, NOW, NOW + timedelta(days=1)
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName("a")]), critical=False)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    cert = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert c.problem(c.KeyPair(cert, pem), cert, ["a"], NOW) == problem


@pytest.mark.parametrize("key_type", c.KeyType)
def test_authority_and_certificate_say_what_they_are_for(key_type: c.KeyType) -> None:
    ca = c.make_ca("x", NOW, key_type)
    pair = c.issue(ca, ["a"], NOW)
    authority, server = (x509.load_pem_x509_certificate(each.cert) for each in (ca, pair))
    for cert, signs in ((authority, True), (server, False)):
        usage = cert.extensions.get_extension_for_class(x509.KeyUsage)
        assert usage.critical
        assert usage.value.digital_signature
        assert usage.value.key_cert_sign is signs
        assert usage.value.key_encipherment is (key_type is c.KeyType.RSA)
        assert not usage.value.crl_sign
        constraints = cert.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (constraints.critical, constraints.value.ca) == (True, signs)
        critical = [extension.oid for extension in cert.extensions if extension.critical]
        assert critical.count(usage.oid) + critical.count(constraints.oid) == len(critical)
    for pem in (ca.key, pair.key):
        kind = b"RSA PRIVATE KEY" if key_type is c.KeyType.RSA else b"PRIVATE KEY"
        assert pem.startswith(b"-----BEGIN " + kind + b"-----")


def test_an_authority_with_a_key_of_another_type_signs_nothing() -> None:
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(c.CertificateError) as refused:
        c.issue(c.KeyPair(c.make_ca("x", NOW).cert, key), ["a"], NOW)
    assert str(refused.value) == "the CA key is a Ed25519PrivateKey; expected an EC or RSA key"


def test_a_long_name_is_cut_to_what_certificates_hold() -> None:
    host = ".".join(["a" * 30] * 3)
    pair = c.issue(c.make_ca("x", NOW), [host], NOW)
    cert = x509.load_pem_x509_certificate(pair.cert)
    assert cert.subject.rfc4514_string() == f"CN={host[:64]}"
    assert c.covers(cert, host)


def test_ensure_keeps_what_stays_valid(tmp_path):
    c.ensure(tmp_path, ["a"], NOW)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    c.ensure(tmp_path, ["a"], NOW + timedelta(days=30))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_new_host_gets_a_new_certificate_from_the_same_ca(tmp_path):
    ca = c.ensure(tmp_path, ["a"], NOW)
    assert c.ensure(tmp_path, ["a", "b"], NOW) == ca
    pair = c.KeyPair((tmp_path / c.SERVER_CERT).read_bytes(), (tmp_path / c.SERVER_KEY).read_bytes())
    assert c.problem(pair, ca, ["a", "b"], NOW) == ""


def test_a_certificate_is_renewed_half_a_year_before_its_end(tmp_path):
    ca = c.ensure(tmp_path, ["a"], NOW)
    old = (tmp_path / c.SERVER_CERT).read_bytes()
    later = NOW + c.LIFETIME - timedelta(days=100)
    renewed = c.ensure(tmp_path, ["a"], later)
    assert renewed != ca  # which ends as soon
    pair = c.KeyPair((tmp_path / c.SERVER_CERT).read_bytes(), (tmp_path / c.SERVER_KEY).read_bytes())
    assert pair.cert != old
    assert c.problem(pair, renewed, ["a"], c.months_later(later, c.MONTHS_AHEAD)) == ""


def test_a_server_certificate_is_renewed_before_its_authority_ends(tmp_path):
    ca = c.make_ca("koordpy-ca", NOW)
    old = c.issue(ca, ["a"], NOW - c.LIFETIME + timedelta(days=100))
    for name, data in {
        c.CA_CERT: ca.cert, c.CA_KEY: ca.key, c.SERVER_CERT: old.cert, c.SERVER_KEY: old.key
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(data)
    assert c.ensure(tmp_path, ["a"], NOW) == ca.cert
    pair = c.KeyPair((tmp_path / c.SERVER_CERT).read_bytes(), (tmp_path / c.SERVER_KEY).read_bytes())
    assert pair.cert != old.cert
    assert c.problem(pair, ca.cert, ["a"], c.months_later(NOW, c.MONTHS_AHEAD)) == ""


def test_a_foreign_certificate_is_left_alone(tmp_path):
    (tmp_path / c.SERVER_CERT).write_text("theirs")
    (tmp_path / "ca.crt").write_text("their ca")
    assert c.ensure(tmp_path, ["a"], NOW) == b"their ca"
    assert (tmp_path / c.SERVER_CERT).read_text() == "theirs"


def test_key_files_are_private_and_keys_do_not_show(tmp_path):
    c.ensure(tmp_path, ["a"], NOW)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {c.CA_CERT: 0o644, c.CA_KEY: 0o600, c.SERVER_CERT: 0o644, c.SERVER_KEY: 0o600}
    assert "PRIVATE" not in repr(c.make_ca("x", NOW))


def test_an_unreadable_certificate_is_named(tmp_path):
    with pytest.raises(c.CertificateError, match=str(tmp_path / c.SERVER_CERT)):
        server_tls.server_context(tmp_path)


def test_a_folder_without_an_authority_is_named(tmp_path):
    (tmp_path / c.SERVER_CERT).write_text("theirs")
    with pytest.raises(c.CertificateError) as refused:
        c.ensure(tmp_path, ["a"], NOW)
    assert str(refused.value).startswith(f"{tmp_path}: neither ca-cert.pem nor ca.crt ")


def test_tls_before_1_2_is_refused(tmp_path):
    c.ensure(tmp_path, ["a"], NOW)
    context = server_tls.server_context(tmp_path)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.protocol == ssl.PROTOCOL_TLS_SERVER


@pytest.mark.parametrize(
    ("host", "covered"),
    [
        ("a.example", True),
        ("b.a.example", False),
        ("example", False),
        ("10.0.0.1", True),
        ("10.0.0.2", False),
    ],
)
def test_a_wildcard_stands_for_one_label(host: str, covered: bool) -> None:
    ca = c.make_ca("w", NOW)
    cert = x509.load_pem_x509_certificate(c.issue(ca, ["*.example", "10.0.0.1"], NOW).cert)
    assert c.covers(cert, host) is covered


@pytest.mark.parametrize(
    ("start", "end"),
    [((2026, 8, 31), (2027, 3, 3)), ((2027, 8, 31), (2028, 3, 2)), ((2026, 1, 15), (2026, 7, 15))],
)
def test_months_run_over_as_they_do_in_go(start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    assert c.months_later(datetime(*start, tzinfo=UTC), 6) == datetime(*end, tzinfo=UTC)


def test_a_folder_that_another_user_controls_is_refused(tmp_path):
    c.ensure(tmp_path / "certs", ["localhost"], NOW)
    (tmp_path / "certs").chmod(0o777)
    for use in (
        lambda: c.ensure(tmp_path / "certs", ["localhost"], NOW),
        lambda: server_tls.server_context(tmp_path / "certs"),
        lambda: c.ca_bundle(tmp_path / "certs"),
    ):
        with pytest.raises(c.CertificateError, match=r"mode 0777.*chmod go-w.*set certDir to another folder"):
            use()


def test_folders_are_made_writable_by_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        c.ensure(tmp_path / "certs", ["localhost"], NOW)
    finally:
        os.umask(before)
    assert (tmp_path / "certs").stat().st_mode & 0o777 == 0o755


def client_pair(folder):
    return c.KeyPair((folder / c.CLIENT_CERT).read_bytes(), (folder / c.CLIENT_KEY).read_bytes())


def test_a_client_certificate_is_for_clients_alone_and_lives_for_a_year(tmp_path):
    ca = c.ensure(tmp_path, ["localhost"], NOW, client="kube-scheduler")
    pair = client_pair(tmp_path)
    cert = x509.load_pem_x509_certificate(pair.cert)
    assert cert.subject.rfc4514_string() == "CN=kube-scheduler"
    assert (cert.not_valid_before_utc, cert.not_valid_after_utc) == (
        NOW - timedelta(hours=1),
        NOW + timedelta(days=365),
    )
    usage = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert c.client_problem(pair, ca, NOW) == ""
    assert c.problem(pair, ca, [], NOW) == "not for servers"
    assert c.client_problem(pair, c.make_ca("x", NOW).cert, NOW).startswith("not signed by its CA")
    assert c.client_problem(pair, ca, NOW + timedelta(days=366)).startswith("the certificate ends")
    server = c.KeyPair((tmp_path / c.SERVER_CERT).read_bytes(), (tmp_path / c.SERVER_KEY).read_bytes())
    assert c.client_problem(server, ca, NOW) == "not for clients"
    assert c.client_problem(c.KeyPair(b"", b""), ca, NOW).startswith("unreadable: ")
    assert (tmp_path / c.CLIENT_KEY).stat().st_mode & 0o777 == 0o600


def test_a_client_certificate_is_renewed_half_a_year_before_its_end_by_the_same_authority(tmp_path):
    ca = c.ensure(tmp_path, ["localhost"], NOW, client="kube-scheduler")
    first, server = client_pair(tmp_path), (tmp_path / c.SERVER_CERT).read_bytes()
    assert c.ensure(tmp_path, ["localhost"], NOW + timedelta(days=180), client="kube-scheduler") == ca
    assert client_pair(tmp_path) == first
    later = NOW + timedelta(days=200)
    assert c.ensure(tmp_path, ["localhost"], later, client="kube-scheduler") == ca
    assert client_pair(tmp_path) != first
    assert c.client_problem(client_pair(tmp_path), ca, later + timedelta(days=300)) == ""
    assert (tmp_path / c.SERVER_CERT).read_bytes() == server


def test_a_folder_of_another_program_gets_no_client_certificate(tmp_path):
    c.ensure(tmp_path, ["localhost"], NOW)
    (tmp_path / c.CA_KEY).unlink()
    assert c.is_given(tmp_path)
    c.ensure(tmp_path, ["localhost"], NOW, client="kube-scheduler")
    assert not (tmp_path / c.CLIENT_CERT).exists()
