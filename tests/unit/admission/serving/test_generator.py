"""Certificates that are made, and when they count as good."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from koordpy.admission.serving import generator
from koordpy.admission.serving.artifacts import OVERLAP, Artifacts
from koordpy.lib import certificates

NOW = datetime(2026, 8, 31, 12, 0, tzinfo=UTC)
DNS = "koordinator-webhook-service.koordinator-system.svc"


@cache
def made(dns: str = DNS) -> Artifacts:
    """Certificates for tests of what happens to them; how they are made is tested on fresh ones."""
    return generator.generate(dns, NOW)


def loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_the_certificate_has_what_kube_apiserver_checks() -> None:
    fresh = generator.generate(DNS, NOW)
    cert, ca = loaded(fresh.cert), loaded(fresh.ca_cert)
    cert.verify_directly_issued_by(ca)
    ca.verify_directly_issued_by(ca)
    assert ca.subject.rfc4514_string() == "CN=webhook-cert-ca"
    assert cert.subject.rfc4514_string() == f"CN={DNS}"
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("localhost"), x509.DNSName(DNS)]
    usage = cert.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
    extended = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_both_live_for_ten_years_and_are_valid_for_clocks_that_are_behind() -> None:
    fresh = generator.generate(DNS, NOW)
    cert, ca = loaded(fresh.cert), loaded(fresh.ca_cert)
    begin, end = NOW - timedelta(hours=1), NOW + timedelta(days=3650)
    assert (ca.not_valid_before_utc, ca.not_valid_after_utc) == (begin, end)
    assert (cert.not_valid_before_utc, cert.not_valid_after_utc) == (begin, end)


def test_keys_are_rsa_2048_in_pkcs1() -> None:
    fresh = generator.generate(DNS, NOW)
    for pem in (fresh.key, fresh.ca_key):
        assert pem.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
        key = load_pem_private_key(pem, None)
        assert isinstance(key, rsa.RSAPrivateKey)
        assert key.key_size == 2048


def test_an_address_is_named_as_one() -> None:
    names = (
        loaded(made("10.1.2.3").cert).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    )
    assert [str(name) for name in names.get_values_for_type(x509.IPAddress)] == ["10.1.2.3"]


def test_an_authority_signs_again_until_its_last_year() -> None:
    later = NOW + timedelta(days=3650 - 366)
    renewed = generator.generate(DNS, later, made())
    assert (renewed.ca_cert, renewed.ca_key) == (made().ca_cert, made().ca_key)
    assert loaded(renewed.cert).not_valid_before_utc == loaded(made().ca_cert).not_valid_before_utc
    assert generator.generate(DNS, later + timedelta(days=2), made()).ca_cert != made().ca_cert


@pytest.mark.parametrize(
    "damage",
    [
        {"ca_key": b""},
        {"ca_key": b"rubbish"},
        {"ca_cert": b""},
        {"ca_cert": made().ca_cert * 2},
        {"ca_key": made("10.1.2.3").ca_key},
        {"ca_key": made().key, "ca_cert": made().cert},
    ],
    ids=["no key", "bad key", "no certificate", "two certificates", "foreign key", "no authority"],
)
def test_an_authority_that_does_not_fit_is_replaced(damage: dict[str, Any]) -> None:
    fresh = generator.generate(DNS, NOW, replace(made(), **damage))
    assert fresh.ca_cert not in (made().ca_cert, damage.get("ca_cert"))
    assert generator.problem(fresh, DNS, NOW) == ""


def test_an_authority_with_another_kind_of_key_is_replaced() -> None:
    ca = certificates.make_ca("elliptic", NOW)
    fresh = generator.generate(DNS, NOW, Artifacts(ca.key, ca.cert, b"", b""))
    assert fresh.ca_cert != ca.cert


def test_what_was_made_is_good_until_half_a_year_before_its_end() -> None:
    last = NOW + timedelta(days=3650) - timedelta(days=185)
    assert generator.problem(made(), DNS, NOW) == ""
    assert generator.problem(made(), DNS, last) == ""
    assert "ends 2036-08-28, before 2036-08-29" in generator.problem(
        made(), DNS, datetime(2036, 2, 29, 13, tzinfo=UTC)
    )
    assert generator.problem(made(), "localhost", NOW) == ""


def test_a_certificate_that_ends_long_before_its_authority_is_replaced() -> None:
    begun = NOW - timedelta(days=3600)
    ca = certificates.make_ca("elliptic", NOW)
    cut_short = certificates.issue(ca, [DNS], begun)
    artifacts = Artifacts(ca.key, ca.cert, cut_short.key, cut_short.cert)
    assert generator.problem(artifacts, DNS, NOW) == "the certificate ends 2026-10-20, before 2027-03-03"
    lasting = certificates.issue(ca, [DNS], NOW)
    assert generator.problem(Artifacts(ca.key, ca.cert, lasting.key, lasting.cert), DNS, NOW) == ""


def test_a_certificate_that_begins_later_is_replaced() -> None:
    ca = certificates.make_ca("elliptic", NOW)
    early = certificates.issue(ca, [DNS], NOW + timedelta(days=300))
    artifacts = Artifacts(ca.key, ca.cert, early.key, early.cert)
    assert generator.problem(artifacts, DNS, NOW).startswith("the certificate ends")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"cert": b"", "ca_cert": b""}, "cert, ca cert missing"),
        ({"key": b"x"}, "unreadable"),
        ({"key": made().ca_key}, "the key does not belong to the certificate"),
        ({"ca_cert": made("10.1.2.3").ca_cert}, "not signed by its CA"),
        ({"cert": made().ca_cert, "key": made().ca_key}, "not for koordinator-webhook-service"),
    ],
)
def test_errors_are_reported(damage: dict[str, Any], told: str) -> None:
    assert generator.problem(replace(made(), **damage), DNS, NOW).startswith(told)


@given(st.sampled_from(["ca_cert", "cert", "key"]), st.data())
def test_whatever_is_broken_is_replaced(which: str, data: st.DataObject) -> None:
    pem = bytearray(getattr(made(), which))
    for _ in range(data.draw(st.integers(1, 8))):
        pem[data.draw(st.integers(30, len(pem) - 30))] = data.draw(st.integers(0, 255))
    broken = replace(made(), **{which: bytes(pem)})  # type: ignore[arg-type]
    if generator.problem(broken, DNS, NOW) == "":  # what was hit is of no consequence, such as a line's end
        assert loaded(broken.cert) == loaded(made().cert)
        assert loaded(broken.ca_cert).public_key() == loaded(made().ca_cert).public_key()


def test_a_host_that_is_none_is_refused() -> None:
    with pytest.raises(certificates.CertificateError, match="got 'ä', expected a host name"):
        generator.generate("ä", NOW)


# --- what is stored ------------------------------------------------------------------------------

pems = st.sampled_from([b"one\n", b"two\n", b"three\n"])


def test_six_names_with_two_of_them_twice() -> None:
    files = made().files()
    assert set(files) == {"ca-key.pem", "ca-cert.pem", "key.pem", "tls.key", "cert.pem", "tls.crt"}
    assert files["key.pem"] == files["tls.key"] == made().key
    assert files["cert.pem"] == files["tls.crt"] == made().cert


def test_what_is_missing_is_empty() -> None:
    assert Artifacts.of({}) == Artifacts(b"", b"", b"", b"", b"", None)
    assert Artifacts(b"k", b"c", b"k", b"c", previous_until=NOW).data().keys() == made().files().keys()


def test_keys_show_in_no_repr() -> None:
    assert "RSA" not in repr(made())


@given(pems, st.lists(pems, max_size=4), st.booleans())
def test_what_is_stored_is_read_again(ca: bytes, previous: list[bytes], rubbish: bool) -> None:
    artifacts = Artifacts(b"k", ca, b"k", b"c")
    for one in previous:
        artifacts = artifacts.remembering(one, NOW)
    data = {**artifacts.data(), **({"other": b"\xff"} if rubbish else {})}
    assert Artifacts.of(data) == artifacts


@given(pems, st.lists(pems, min_size=1, max_size=4))
def test_replaced_authorities_are_trusted_for_a_while(ca: bytes, previous: list[bytes]) -> None:
    artifacts = Artifacts(b"", ca, b"", b"")
    for one in previous:
        artifacts = artifacts.remembering(one, NOW)
    soon, later = NOW + OVERLAP - timedelta(seconds=1), NOW + OVERLAP
    assert artifacts.trusted(soon).startswith(ca)
    assert all(artifacts.trusts(one, soon) for one in previous)
    assert artifacts.trusted(later) == ca


@pytest.mark.parametrize("until", [b"", b"soon", b"\xff"])
def test_an_unreadable_time_means_that_nothing_is_remembered(until: bytes) -> None:
    found = Artifacts.of({"ca-cert.pem": b"a", "previous-ca-cert.pem": b"b", "previous-ca-until": until})
    assert found.trusted(NOW) == b"a"
    assert found.data() == found.files()
