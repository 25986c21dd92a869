"""`koordpy serve` as a process beside a control plane, and objects for it."""

import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import yaml

from koordpy import data
from tests import loopback
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.eventually import PATIENCE

Document = dict[str, Any]


class Koordpy:
    """`koordpy serve` with the extender and the debug API, and its configuration as files.

    With `webhooks` it serves these too, by URL; register them before (`register_webhooks`).
    """

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        gates: Mapping[str, bool] = MappingProxyType({}),
        *,
        webhooks: bool = False,
        **extender: Any,
    ) -> None:
        self.ports = {part: free_port() for part in ("extender", "debug")}
        self.config = folder / "koordpy.yaml"
        document: Document = {
            "parts": ["extender", "debug"],
            "featureGates": dict(gates),
            "client": {"kubeconfig": str(plane.kubeconfig)},
            "extender": {"port": self.ports["extender"], **extender},
            "debug": {"port": self.ports["debug"]},
        }
        if webhooks:
            document["parts"].append("admission")
            document["admission"] = {
                "bindAddress": "127.0.0.1",
                "port": free_port(),
                "certDir": str(folder / "certs"),
                "certificates": {"mode": "secret", "host": "127.0.0.1"},
            }
        self.config.write_text(yaml.safe_dump(document))
        code = "from koordpy.cli import main; main()"
        arguments = ["-c", code, "serve", "--config", str(self.config)]
        self.process = Process("koordpy", [Path(sys.executable), *arguments], folder)
        self.process.wait_ready(self._is_ready)

    @property
    def debug_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['debug']}"

    def get(self, path: str) -> httpx.Response:
        return loopback.get(self.debug_url + path)

    def history(self, name: str) -> Document:
        """Return the history of a pod that was created, once koordpy's watch has shown the pod."""
        answer = self.get(f"/apis/v1/pods/default/{name}/history")
        deadline = time.monotonic() + PATIENCE
        while answer.status_code == httpx.codes.NOT_FOUND and time.monotonic() < deadline:
            time.sleep(0.02)
            answer = self.get(f"/apis/v1/pods/default/{name}/history")
        answer.raise_for_status()
        found: Document = answer.json()
        return found

    def entry(self, name: str) -> Document:
        """Return a shipped configuration of kube-scheduler that calls this process."""
        document: Document = yaml.safe_load(data.deploy("scheduler", name).read_text())
        for extender in document["extenders"]:
            extender["urlPrefix"] = f"http://127.0.0.1:{self.ports['extender']}/extender"
        return document

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run another command of koordpy."""
        command = [sys.executable, "-c", "from koordpy.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def _is_ready(self) -> bool:
        return loopback.is_ready(self.debug_url + "/readyz")


def register_webhooks(plane: ControlPlane) -> None:
    """Create koordpy's namespace and the configurations of its webhooks, which a server then completes."""
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}})
    for file in ("mutating.yaml", "validating.yaml"):
        plane.kubectl("create", "-f", str(data.deploy("webhooks", file)))


def create(plane: ControlPlane, *documents: Document) -> None:
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(documents))


def pod(name: str, cpu: str = "100m", **spec: Any) -> Document:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    meta = {"name": name, "namespace": "default", "labels": {"story": ""}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def add_node(plane: ControlPlane, name: str, used: str) -> None:
    capacity = {"cpu": "16", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    create(
        plane,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
        },
        {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": name},
            "spec": {},
        },
    )
    usage = {"nodeUsage": {"resources": {"cpu": used, "memory": "1Gi"}}}
    status = {"updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "nodeMetric": usage}
    patch = yaml.safe_dump({"status": status})
    plane.kubectl("patch", f"nodemetric/{name}", "--subresource=status", "--type=merge", "--patch", patch)


def nodes_of(plane: ControlPlane) -> dict[str, str]:
    """Return where the pods of the story are, by name; an empty name for those that are nowhere."""
    pods = yaml.safe_load(plane.kubectl("get", "pods", "-l", "story", "-o", "json").stdout)["items"]
    return {found["metadata"]["name"]: found["spec"].get("nodeName", "") for found in pods}
