"""What users get wrong: one line that names the file or the option, the value, and what was expected."""

from pathlib import Path

import pytest

from koordpy import cli

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: a}]}\n"
PROFILE = (
    "apiVersion: config.koordinator.sh/v1alpha1\nkind: ClusterColocationProfile\nmetadata: {name: p}\n"
    "spec: {selector: {matchLabels: {a: b}}, qosClass: BE}\n"
)
FILES = {
    "binary": b"\x00\xd3\xff",
    "empty": b"",
    "configmap": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    "pod": POD.encode(),
    "profile": PROFILE.encode(),
    "wrong-profile": PROFILE.replace("{matchLabels: {a: b}}", "3").encode(),
    "wrong-namespace": b"apiVersion: v1\nkind: Namespace\nmetadata: {name: p, labels: 3}\n",
    "list": b"- 1\n",
    "surrogate": b'"a\\ud800": 1\n',
    "port": b"admission: {port: 9999999}\n",
    "gates": b"featureGates: {PodMutatingWebhok: true}\n",
    "handler": b"admission: {enabled: [{name: mutate-pod.MultiQuotaTre}]}\n",
}
NOWHERE = "http://127.0.0.1:1"


def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Run the command line, which has to fail, and return its one line."""
    monkeypatch.setattr("sys.argv", ["koordpy", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code in (1, 2)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("koordpy: ")]
    assert len(lines) == 1
    assert "internal error" not in lines[0]
    return lines[0].removeprefix("koordpy: ")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "nowhere")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("profile explain -f binary", "binary: not "),
        ("simulate -f binary", "binary: not text in UTF-8: byte 0xd3 at position 1"),
        ("serve --config binary", "binary: not text in UTF-8"),
        (f"doctor --config binary --server {NOWHERE}", "binary: not text in UTF-8"),
        (f"serve --parts extender --scheduler-config binary --server {NOWHERE}", "binary: not text in UTF-8"),
        (
            f"worker --parts descheduler --descheduler-config configmap --server {NOWHERE}",
            "configmap: ConfigMap 'x': expected one DeschedulerConfiguration",
        ),
        ("profile lint -f empty", "empty: no ClusterColocationProfile: nothing to lint"),
        ("profile lint -f configmap", "configmap: no ClusterColocationProfile: nothing to lint"),
        ("profile preview -f pod --pods pod", "pod: no ClusterColocationProfile: nothing to preview"),
        ("profile preview -f profile --pods profile", "profile: no pod"),
        (
            "profile preview -f wrong-profile --pods pod",
            "wrong-profile: ClusterColocationProfile p: Expected",
        ),
        ("profile explain -f pod -f wrong-namespace", "wrong-namespace: Namespace p: Expected `object`"),
        ("profile explain -f configmap", "configmap: no pod or workload"),
        ("whatif -f configmap", "configmap: no pod or workload"),
        ("profile lint --kubeconfig list", "kubeconfig list: not a kubeconfig"),
        ("profile lint --server http://", "not an http:// or https:// URL: 'http://'"),
        ("profile lint --server http://a..b", "not a host name: 'a..b' of 'http://a..b'"),
        ("whatif -f pod --debug-server http://a..b", ""),
        ("certs --dir certs --host ", "got '', expected a host name or an address"),
        ("certs --dir certs --host a..b", "got 'a..b', expected a host name or an address"),
        ("serve --config surrogate", "surrogate: "),
        (
            f"serve --config port --admission-bind :9999 --server {NOWHERE}",
            "port: admission.port: got 9999999, expected less than or equal to 65535",
        ),
        (
            f"serve --config gates --server {NOWHERE}",
            "gates: featureGates: unrecognized feature gate 'PodMutatingWebhok'; did you mean PodM",
        ),
        (
            f"serve --config handler --server {NOWHERE}",
            'handler: admission.enabled[0].name: got "mutate-pod.MultiQuotaTre", expected an',
        ),
        ("profile explain -f pod --config handler", "handler: admission.enabled[0].name: "),
        ("profile explain -f pod --config gates", "gates: featureGates: unrecognized feature gate "),
        ("profile lint -f profile --feature-gates PodMutatingWebhok=true", "unrecognized feature gate"),
        (f"worker --parts controler --server {NOWHERE}", "did you mean controllers?"),
        (f"doctor --parts admissin --server {NOWHERE}", "--parts: got 'admissin'; did you mean admission?"),
    ],
)
def test_an_error_names_what_is_wrong_and_where(
    arguments: str,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert expected in complaint(capsys, monkeypatch, *arguments.split(" "))
