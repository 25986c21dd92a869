"""README's way to install koordpy, with an image that does not exist: no step of it stops a real cluster.

There are no kubelets, so koordpy's pods never start, as on a cluster whose nodes cannot pull the image.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import loopback
from tests.e2e.controlplane import build
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.eventually import PATIENCE, eventually
from tests.manifests import render

pytestmark = pytest.mark.timeout(600)

ROOT = render.DEPLOY.parent
MUTATING = "mutatingwebhookconfiguration/koordinator-mutating-webhook-configuration"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own: its webhooks would affect all other tests."""
    with ControlPlane() as made:
        yield made


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands need of the checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "deploy").symlink_to(render.DEPLOY)
    return folder


def commands(page: str, heading: str) -> list[str]:
    """Return the shell blocks of a section."""
    text = (ROOT / page).read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def shell(plane: ControlPlane, folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run a script as a user would, with kubectl and koordpy on the path."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name, program in (
        ("kubectl", f'"{build.ensure(["kubectl"])["kubectl"]}" "$@"'),
        ("koordpy", f'"{sys.executable}" -c "from koordpy.cli import main; main()" "$@"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\nexec {program}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def create_pod(plane: ControlPlane, name: str) -> str:
    """Create a pod; return the error."""
    spec = {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": name, "namespace": "default"},
        "spec": spec,
    }
    return plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod), check=False).stderr


class Tenant:
    """Creates pods all the time, from `with` to its end."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._ended = plane, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.created, self.errors = 0, list[str]()

    def __enter__(self) -> "Tenant":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            error = create_pod(self._plane, "tenant-")
            if error:
                self.errors.append(error)
            self.created += 1


def policies(plane: ControlPlane) -> set[str]:
    done = plane.kubectl("get", MUTATING, "-o", "jsonpath={.webhooks[*].failurePolicy}")
    return set(done.stdout.split())


def test_pods_are_created_at_every_moment_of_the_installation(plane: ControlPlane, checkout: Path) -> None:
    image, install = commands("README.md", "Use it on a cluster")
    assert "docker build" in image
    install = install.replace("--timeout=3m", "--timeout=3s")
    with Tenant(plane) as tenant:
        done = shell(plane, checkout, f"IMAGE=registry.invalid/koordpy:0.1.0\n{install}")
        before = tenant.created
        assert eventually(lambda: tenant.created >= before + 3)
    assert tenant.errors == []
    assert "serverside-applied" in done.stdout
    image = plane.kubectl(
        *("get", "-n", "koordinator-system", "deployment/koordpy-webhooks"),
        *("-o", "jsonpath={.spec.template.spec.containers[0].image}"),
    ).stdout
    assert image == "registry.invalid/koordpy:0.1.0"
    # The last command is the doctor, which names the cause.
    assert "is ready: every webhook call fails" in done.stdout
    assert done.returncode == 1


def test_the_overlay_of_everything_stops_no_pod_either(plane: ControlPlane, checkout: Path) -> None:
    [_, _, overlay, _] = commands_of_installing()
    with Tenant(plane) as tenant:
        done = shell(
            plane,
            checkout,
            f"IMAGE=registry.invalid/koordpy:0.1.0\n{overlay}kubectl apply --server-side -k my-koordpy",
        )
    assert done.returncode == 0, done.stderr
    assert tenant.created > 0
    assert tenant.errors == []


def commands_of_installing() -> list[str]:
    return [*commands("docs/install.md", "The image"), *commands("docs/install.md", "With kubectl")]


def test_break_glass_opens_a_closed_cluster_and_koordpy_does_not_close_it_again(
    plane: ControlPlane, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "closed").mkdir()
    document: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../deploy/kustomize/overlays/webhooks-only"],
        "components": ["../deploy/kustomize/components/webhooks-fail-closed"],
    }
    (checkout / "closed" / "kustomization.yaml").write_text(yaml.safe_dump(document))
    applied = shell(plane, checkout, "kubectl apply --server-side -k closed")
    assert applied.returncode == 0, applied.stderr
    with Replica(plane, tmp_path):
        assert eventually(lambda: _is_completed(plane))
        assert policies(plane) == {"Fail"}
        # No kube-proxy leads to the service here.
        assert "failed calling webhook" in create_pod(plane, "closed")
        opened = shell(plane, checkout, "koordpy break-glass")
        assert opened.returncode == 0, opened.stderr
        assert "Ignore for every webhook" in opened.stdout
        assert create_pod(plane, "opened") == ""
    with Replica(plane, tmp_path):  # a replica that starts keeps it too
        assert policies(plane) == {"Ignore"}
        assert shell(plane, checkout, "koordpy break-glass --undo").returncode == 0
        assert policies(plane) == {"Fail"}
        again = shell(plane, checkout, "kubectl apply --server-side -k closed")
        assert again.returncode == 0, again.stderr
    script = (ROOT / "docs" / "when-koordpy-is-down.md").read_text()
    [delete] = re.findall(r"^\$ (kubectl delete .*)$", script, re.MULTILINE)
    assert shell(plane, checkout, delete).returncode == 0
    assert create_pod(plane, "deleted") == ""
    assert shell(plane, checkout, "kubectl apply --server-side -k closed").returncode == 0
    assert "Fail" in policies(plane)


def _is_completed(plane: ControlPlane) -> bool:
    done = plane.kubectl("get", MUTATING, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
    return bool(done.stdout)


class Replica:
    """A replica of the webhooks, as the overlay configures it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        config = yaml.safe_load((render.DEPLOY / "kustomize/base/webhooks/koordpy.yaml").read_text())
        config["client"] = {"kubeconfig": str(plane.kubeconfig)}
        config["admission"] |= {
            "certDir": str(folder / "certs"),
            "bindAddress": "127.0.0.1",
            "port": free_port(),
        }
        config["debug"] = {"port": free_port()}
        file = folder / "koordpy.yaml"
        file.write_text(yaml.safe_dump(config))
        self.url = f"http://127.0.0.1:{config['debug']['port']}/readyz"
        code = "from koordpy.cli import main; main()"
        self._command = [sys.executable, "-c", code, "serve", "--config", str(file)]
        self._folder = folder

    def __enter__(self) -> None:
        self._process = Process("koordpy", self._command, self._folder)
        self._process.wait_ready(lambda: loopback.is_ready(self.url))

    def __exit__(self, *_: object) -> None:
        self._process.stop()
