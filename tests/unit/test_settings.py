from pathlib import Path

import pytest

from koordpy import settings
from koordpy.admission.serving.config import CertificateSettings, Mode
from koordpy.api.config_model import ConfigError


def test_without_a_file_everything_has_its_default():
    found = settings.load(None)
    assert found.parts is None
    assert (found.admission.port, found.extender.port, found.debug.port) == (9876, 9877, 10251)
    assert found.debug.bind_address == "127.0.0.1"


def test_the_command_line_is_laid_over_the_file(tmp_path):
    path = tmp_path / "koordpy.yaml"
    path.write_text("parts: [admission]\nadmission: {port: 1, certDir: mine}\n")
    found = settings.load(path, {"admission": {"port": 2, "certDir": None}, "parts": None})
    assert (found.parts, found.admission.port, found.admission.cert_dir) == (("admission",), 2, "mine")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("parts: [window]", r"parts\[0\]: got \"window\", expected 'admission'"),
        ("parts: []", r"parts: got \[\], "),
        ("doors: [admission]", "doors: was renamed to parts"),
        ("worker: {qos: {}}", "worker.qos: was renamed to agent"),
        ("debug: {port: 70000}", "debug.port: got 70000"),
        ("debug: {colour: red}", 'debug.colour: unknown field, got "red"'),
        ("workers: 2", "workers: unknown field, got 2"),
        ("apiVersion: v1", 'apiVersion: got "v1"'),
        ("[]", r"got \[\], expected an object"),
        ("{", "not YAML"),
        ("agent: {syncTimeout: soon}", 'agent.syncTimeout: got "soon"'),
    ],
)
def test_a_wrong_file_is_refused_with_file_path_value_and_expectation(tmp_path, text, complaint):
    path = tmp_path / "koordpy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as raised:
        settings.load(path)
    assert str(path) in str(raised.value)


def test_durations_are_go_text():
    assert settings.load(None, {"agent": {"syncTimeout": "1m30s"}}).agent.sync_timeout == 90


def test_koordinators_variables_are_defaults_below_the_file(tmp_path):
    variables = {
        "MUTATING_WEBHOOK_NAME": "m",
        "VALIDATING_WEBHOOK_NAME": "v",
        "POD_NAMESPACE": "ns",
        "SECRET_NAME": "s",
        "SERVICE_NAME": "svc",
        "WEBHOOK_PORT": "1234",
        "WEBHOOK_CERT_DIR": "/c",
        "WEBHOOK_CERT_WRITER": "secret",
    }
    found = settings.load(None, None, variables).admission
    assert (found.port, found.certificate_folder) == (1234, Path("/c"))
    assert found.certificates == CertificateSettings(
        mode=Mode.SECRET, namespace="ns", secret_name="s", service_name="svc"
    )
    assert (found.registration.mutating, found.registration.validating) == ("m", "v")
    path = tmp_path / "koordpy.yaml"
    path.write_text("admission: {port: 1, certificates: {mode: given, namespace: mine}}\n")
    found = settings.load(path, {"admission": {"certDir": "d"}}, variables).admission
    assert (found.port, found.cert_dir, found.certificates.mode) == (1, "d", "given")
    assert (found.certificates.namespace, found.certificates.secret_name) == ("mine", "s")


IN_A_POD = {"POD_NAMESPACE": "ns", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.mark.parametrize(
    ("variables", "mode", "folder", "registers", "delay"),
    [
        ({}, "local", "certs", False, 0),
        ({"WEBHOOK_CERT_DIR": ""}, "local", "certs", False, 0),
        ({"POD_NAMESPACE": "ns"}, "local", "certs", False, 0),
        (IN_A_POD, "secret", "/tmp/koordinator-webhook-certs", True, 5),
        ({"WEBHOOK_HOST": "10.0.0.9"}, "fs", "/tmp/koordinator-webhook-certs", True, 5),
        (IN_A_POD | {"WEBHOOK_CERT_WRITER": "fs"}, "fs", "/tmp/koordinator-webhook-certs", True, 5),
    ],
)
def test_the_environment_selects_the_source_of_the_certificate(variables, mode, folder, registers, delay):
    found = settings.load(None, None, variables)
    assert found.admission.certificates.mode == mode
    assert found.admission.certificate_folder == Path(folder)
    assert found.admission.registers is registers
    assert found.admission.shutdown_delay == delay


def test_the_name_that_is_called_is_the_services_or_the_host():
    assert settings.load(None, None, IN_A_POD).admission.certificates.dns == (
        "koordinator-webhook-service.ns.svc"
    )
    assert settings.load(None, None, {"WEBHOOK_HOST": "h"}).admission.certificates.dns == "h"


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("WEBHOOK_PORT", "https", "WEBHOOK_PORT: got 'https', expected a port number"),
        ("WEBHOOK_PORT", "70000", "WEBHOOK_PORT: got '70000'"),
        ("WEBHOOK_CERT_WRITER", "vault", "WEBHOOK_CERT_WRITER: got 'vault', expected 'fs' or 'secret'"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(variable, value, complaint):
    with pytest.raises(ConfigError, match=complaint):
        settings.load(None, None, {variable: value})


def test_the_default_lease_is_that_of_koord_scheduler():
    assert settings.Settings().extender.lease.name == "koord-scheduler"
    found = settings.load(None, {"extender": {"lease": {"namespace": "kube-system"}}}).extender.lease
    assert (found.namespace, found.name) == ("kube-system", "koord-scheduler")


def test_the_lists_of_plugin_controllers_are_koordinators():
    assert settings.Settings().extender.controller_plugins == ("*",)
    found = settings.load(None, {"extender": {"controllerPlugins": ["*", "-Reservation"]}})
    assert found.extender.controller_plugins == ("*", "-Reservation")
