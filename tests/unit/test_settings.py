import pytest

from koordpy import settings
from koordpy.api.config_model import ConfigError


def test_without_a_file_everything_has_its_default():
    found = settings.load(None)
    assert found.doors == ("admission", "extender", "debug")
    assert (found.admission.port, found.extender.port, found.debug.port) == (9876, 9877, 10251)
    assert found.debug.bind_address == "127.0.0.1"


def test_the_command_line_is_laid_over_the_file(tmp_path):
    path = tmp_path / "koordpy.yaml"
    path.write_text("doors: [admission]\nadmission: {port: 1, certDir: mine}\n")
    found = settings.load(path, {"admission": {"port": 2, "certDir": None}, "doors": None})
    assert (found.doors, found.admission.port, found.admission.cert_dir) == (("admission",), 2, "mine")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("doors: [window]", r"doors\[0\]: got \"window\", expected 'admission'"),
        ("debug: {port: 70000}", "debug.port: got 70000"),
        ("debug: {colour: red}", 'debug.colour: unknown field, got "red"'),
        ("apiVersion: v1", 'apiVersion: got "v1"'),
        ("[]", r"got \[\], expected an object"),
        ("{", "not YAML"),
        ("worker: {qos: {syncTimeout: soon}}", 'worker.qos.syncTimeout: got "soon"'),
    ],
)
def test_a_wrong_file_is_refused_with_file_path_value_and_expectation(tmp_path, text, complaint):
    path = tmp_path / "koordpy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as raised:
        settings.load(path)
    assert str(path) in str(raised.value)


def test_durations_are_go_text():
    assert settings.load(None, {"worker": {"qos": {"syncTimeout": "1m30s"}}}).worker.qos.sync_timeout == 90
