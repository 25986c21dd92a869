"""Certificates that live in a folder alone, and what is published to one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from koordpy.admission.serving import generator
from koordpy.admission.serving.artifacts import OVERLAP
from koordpy.admission.serving.certificate_folder import CertificateFolder, check_is_ours, publish
from koordpy.lib.certificates import CertificateError, ca_bundle
from koordpy.lib.clock import FakeClock
from koordpy.lib.published_folder import read

NOW = datetime(2026, 8, 31, 12, tzinfo=UTC)
DNS = "localhost"


async def test_certificates_are_made_once_and_written_by_publishing_alone(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    folder = CertificateFolder(tmp_path, DNS, clock)
    made = await folder.obtain(None)
    assert generator.problem(made, DNS, NOW) == ""
    assert read(tmp_path, made.files()) == {}
    assert await folder.obtain(None) is made
    assert publish(tmp_path, made, clock)
    assert not publish(tmp_path, made, clock)
    assert read(tmp_path, made.files()) == made.files()
    assert await CertificateFolder(tmp_path, DNS, clock).obtain(None) == made


async def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    made = generator.generate(DNS, NOW)
    publish(tmp_path, made, FakeClock(NOW))
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in made.files()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {"ca-key.pem", "key.pem", "tls.key"}
    assert {name for name, mode in modes.items() if mode == 0o644} == {"ca-cert.pem", "cert.pem", "tls.crt"}


@pytest.mark.parametrize(("days", "trusted_too"), [(3650 - 100, True), (3651, False)])
async def test_a_renewal_has_an_authority_of_its_own_and_the_one_served_stays_trusted_if_it_is_good(
    tmp_path: Path, days: int, trusted_too: bool
) -> None:
    clock = FakeClock(NOW)
    folder = CertificateFolder(tmp_path, DNS, clock)
    made = await folder.obtain(None)
    publish(tmp_path, made, clock)
    clock.advance(timedelta(days=days).total_seconds())
    now = clock.now()
    renewed = await folder.obtain(made)
    assert generator.problem(renewed, DNS, now) == ""
    assert renewed.ca_cert != made.ca_cert
    assert renewed.trusts(made.ca_cert, now) is trusted_too
    assert not renewed.trusts(made.ca_cert, now + OVERLAP)


async def test_a_certificate_for_another_name_is_replaced(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    publish(tmp_path, generator.generate("other", NOW), clock)
    found = await CertificateFolder(tmp_path, DNS, clock).obtain(None)
    assert generator.problem(found, DNS, NOW) == ""
    assert found.trusted(NOW) == found.ca_cert


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match=f"^{tmp_path}/file: the certificate cannot be written: "):
        publish(tmp_path / "file", generator.generate(DNS, NOW), FakeClock(NOW))


def test_a_certificate_that_was_not_made_here_is_left_alone(tmp_path: Path) -> None:
    check_is_ours(tmp_path)
    (tmp_path / "tls.crt").touch()
    with pytest.raises(CertificateError) as refused:
        check_is_ours(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path} holds a tls.crt without ca-key.pem: ")
    assert str(refused.value).endswith(
        "; set admission.certificates.mode to given, or admission.certDir to another folder"
    )
    (tmp_path / "ca-key.pem").touch()
    check_is_ours(tmp_path)


async def test_a_folder_that_another_user_prepared_is_neither_read_nor_written(tmp_path: Path) -> None:
    """Otherwise its authority would end up in caBundle, and its owner could answer for the webhooks."""
    clock = FakeClock(NOW)
    prepared = tmp_path / "koordinator-webhook-certs"
    publish(prepared, generator.generate(DNS, NOW), clock)
    prepared.chmod(0o777)
    refusals = []
    for attempt in (
        check_is_ours,
        ca_bundle,
        lambda path: publish(path, generator.generate(DNS, NOW), clock),
    ):
        with pytest.raises(CertificateError) as refused:
            attempt(prepared)
        refusals.append(str(refused.value))
    with pytest.raises(CertificateError) as refused:
        await CertificateFolder(prepared, DNS, clock).obtain(None)
    for message in (*refusals, str(refused.value)):
        assert f"{prepared} is writable by other users (owner " in message
        assert ", mode 0777); expected owner root" in message
        assert message.endswith("or set certDir to another folder")
