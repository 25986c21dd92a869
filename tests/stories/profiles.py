"""The story of a profile that comes after its pods: previewed, linted, created, and applied by the worker.

Everything is done as an operator does it, with `koordpy` processes against the API server.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE, eventually
from tests.integration.apiserver.objects import labelled, pod
from tests.integration.apiserver.rest import Collection, Rest, ok

NAMESPACE = "profile-story"
PROFILE: dict[str, Any] = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "late", "labels": {"config.koordinator.sh/controller-managed": "true"}},
    "spec": {
        "selector": {"matchLabels": {"app": "spark"}},
        "labels": {"team": "data"},
        "annotations": {"note": "late"},
        "patch": {"spec": {"activeDeadlineSeconds": 3600}},
    },
}
REFUSED: dict[str, Any] = {
    **PROFILE,
    "metadata": {**PROFILE["metadata"], "name": "refused"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "patch": {"spec": {"nodeSelector": {"disk": "ssd"}}},
    },
}


def tell(rest: Rest, server: list[str], folder: Path) -> None:
    """Tell the story; `server` are the options that name the API server."""
    for name in (NAMESPACE, "koordinator-system"):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        ok(rest.collection("namespaces").create(namespace), 201)
    pods = rest.collection("pods", NAMESPACE)
    for name, app in (("early-0", "spark"), ("early-1", "spark"), ("other", "web")):
        ok(pods.create(labelled(pod(name), app=app)), 201)
    profiles = rest.collection("clustercolocationprofiles", "", "config.koordinator.sh/v1alpha1")
    assert eventually(lambda: profiles.list().status_code == 200)
    files = [str(folder / f"{document['metadata']['name']}.yaml") for document in (PROFILE, REFUSED)]
    for file, document in zip(files, (PROFILE, REFUSED), strict=True):
        Path(file).write_text(yaml.safe_dump(document))

    before = koordpy("profile", "preview", "-f", files[0], "-o", "json", *server)
    assert (before["touched"], before["pending"], before["patched"]) == (2, 3, 2)
    [group] = before["groups"]
    assert [item["name"] for item in group["workloads"]] == ["early-0", "early-1"]
    lint = koordpy("profile", "lint", "-f", files[0], "-f", files[1], "-o", "json", *server)
    assert [(item["name"], item["rule"]) for item in lint["findings"]] == [
        ("refused", "controller-cannot-patch")
    ]

    for document in (PROFILE, REFUSED):
        ok(profiles.create(document), 201)
    with working(server, folder):
        for name in ("early-0", "early-1"):
            assert eventually(partial(is_done, pods, name)), (folder / "worker.log").read_text()
        ok(pods.create(labelled(pod("new"), app="spark")), 201)
        assert eventually(lambda: is_done(pods, "new")), (folder / "worker.log").read_text()
    assert "team" not in ok(pods.get("other"))["metadata"]["labels"]
    assert "nodeSelector" not in ok(pods.get("other"))["spec"]
    assert "ClusterColocationProfile refused: not applied" in (folder / "worker.log").read_text()

    after = koordpy("profile", "preview", "-f", files[0], "-o", "json", *server)
    assert (after["profiles"][0]["status"], after["patched"]) == ("unchanged", 0)
    [told] = koordpy("profile", "explain", f"{NAMESPACE}/early-0", "-o", "json", *server)
    assert [(rule["subject"], rule["applied"]) for rule in told["rules"]][:2] == [
        ("refused", False),
        ("late", True),
    ]


def is_done(pods: Collection, name: str) -> bool:
    """Whether a pod is what the profile says, and the rest of it as they were."""
    found = ok(pods.get(name))
    return (
        found["metadata"]["labels"] == {"app": "spark", "team": "data"}
        and found["metadata"].get("annotations", {}).get("note") == "late"
        and found["spec"].get("activeDeadlineSeconds") == 3600
        and found["spec"]["containers"][0]["image"] == "registry.test/app:1"
    )


@contextmanager
def working(server: list[str], folder: Path) -> Iterator[None]:
    """Run the controllers; a worker that ends by itself fails the story."""
    arguments = [
        "worker",
        "--parts=controllers",
        "--feature-gates=ColocationProfileController=true",
        "--controller-arg=colocationprofile.reconcileInterval=1s",
        f"--debug-bind=127.0.0.1:{free_port()}",
        *server,
    ]
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(_command(*arguments), stdout=log, stderr=log)
        try:
            yield
            assert process.poll() is None
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0


def koordpy(*arguments: str) -> Any:
    """Run a command that prints JSON."""
    done = subprocess.run(_command(*arguments), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from koordpy.cli import main; main()", *arguments]
