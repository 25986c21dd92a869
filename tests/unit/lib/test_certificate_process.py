import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from koordpy.lib import certificate_process, certificates

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_certificate_is_created_once_and_replaced_before_it_ends(tmp_path):
    folder = tmp_path / "certs"
    certificate_process.ensure(folder, ["localhost", "127.0.0.1"], NOW)
    cert, key = (
        (folder / certificates.SERVER_CERT).read_bytes(),
        (folder / certificates.SERVER_KEY).read_bytes(),
    )
    ca = (folder / certificates.CA_CERT).read_bytes()
    assert certificates.problem(certificates.KeyPair(cert, key), ca, ["127.0.0.1", "localhost"], NOW) == ""
    assert (folder / certificates.SERVER_KEY).stat().st_mode & 0o777 == 0o600
    certificate_process.ensure(folder, ["localhost", "127.0.0.1"], NOW + timedelta(days=1))
    assert (folder / certificates.SERVER_CERT).read_bytes() == cert
    certificate_process.ensure(folder, ["localhost", "127.0.0.1"], NOW + certificates.LIFETIME)
    assert (folder / certificates.SERVER_CERT).read_bytes() != cert


def test_a_client_certificate_is_created_too(tmp_path):
    certificate_process.ensure(tmp_path, ["localhost"], NOW, client="scheduler")
    pair = certificates.KeyPair(
        (tmp_path / certificates.CLIENT_CERT).read_bytes(), (tmp_path / certificates.CLIENT_KEY).read_bytes()
    )
    assert certificates.client_problem(pair, (tmp_path / certificates.CA_CERT).read_bytes(), NOW) == ""


def test_the_reason_of_a_failure_is_that_of_the_other_process(tmp_path):
    with pytest.raises(certificates.CertificateError, match=r"^got 'not a name', expected a host name"):
        certificate_process.ensure(tmp_path, ["not a name"], NOW)
    (tmp_path / "file").write_text("")
    with pytest.raises(certificates.CertificateError, match="file"):
        certificate_process.ensure(tmp_path / "file", ["localhost"], NOW)


def test_a_process_that_cannot_be_started_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(certificates.CertificateError, match="no certificate can be created"):
        certificate_process.ensure(tmp_path, ["localhost"], NOW)


def test_the_caller_does_not_load_the_library(tmp_path: Path):
    program = (
        "import sys, datetime, pathlib\n"
        "from koordpy.lib import certificate_process\n"
        "now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)\n"
        "certificate_process.ensure(pathlib.Path(sys.argv[1]), ['localhost'], now)\n"
        "assert 'cryptography' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=os.environ)
    assert (tmp_path / certificates.SERVER_CERT).exists()
