"""Light mode beside kube-scheduler itself: it binds, koordpy filters and scores; and what koordpy then "
"knows."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from koordpy import data
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.eventually import eventually

Document = dict[str, Any]

HOT, COOL, PODS = ("hot-0", "hot-1"), ("cool-0", "cool-1", "cool-2"), 30


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        made.install_crds()
        yield made


class Koordpy:
    """`koordpy serve` with the extender and debug doors, and its configuration as files."""

    def __init__(self, plane: ControlPlane, folder: Path, **extender: Any) -> None:
        self.ports = {door: free_port() for door in ("extender", "debug")}
        self.config = folder / "koordpy.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "doors": ["extender", "debug"],
                    "client": {"kubeconfig": str(plane.kubeconfig)},
                    "extender": {"port": self.ports["extender"], **extender},
                    "debug": {"port": self.ports["debug"]},
                }
            )
        )
        code = "from koordpy.cli import main; main()"
        arguments = ["-c", code, "serve", "--config", str(self.config)]
        self.process = Process("koordpy", [Path(sys.executable), *arguments], folder)
        self.process.wait_ready(self._is_ready)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.ports['debug']}{path}", timeout=30)

    def history(self, name: str) -> Document:
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
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False


def create(plane: ControlPlane, *documents: Document) -> None:
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(documents))


def pod(name: str, cpu: str = "100m", **spec: Any) -> Document:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    meta = {"name": name, "namespace": "default", "labels": {"story": "light"}}
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
    pods = yaml.safe_load(plane.kubectl("get", "pods", "-l", "story=light", "-o", "json").stdout)["items"]
    return {found["metadata"]["name"]: found["spec"].get("nodeName", "") for found in pods}


def test_kube_scheduler_binds_by_itself_and_hot_nodes_are_avoided(
    plane: ControlPlane, tmp_path: Path
) -> None:
    for name in (*HOT, *COOL):
        add_node(plane, name, "13" if name in HOT else "1")
    koordpy = Koordpy(plane, tmp_path, mode="light")
    try:
        scheduler = koordpy.entry("kube-scheduler-config-light.yaml")
        plane.start_scheduler(scheduler)
        create(plane, pod("huge", cpu="64"), pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        create(plane, pod("foreign", schedulerName="nobody"), *(pod(f"p{i}") for i in range(PODS)))
        assert eventually(lambda: all(nodes_of(plane)[f"p{i}"] for i in range(PODS)), 60), plane.logs()
        assert {nodes_of(plane)[f"p{i}"] for i in range(PODS)} == set(COOL)
        tell_the_lives(plane, koordpy)
        examine(plane, koordpy, tmp_path, scheduler)
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()


def tell_the_lives(plane: ControlPlane, koordpy: Koordpy) -> None:
    """What koordpy knows of pods that were placed, and why the others wait."""

    def steps(name: str) -> list[str]:
        return [step["what"] for step in koordpy.history(name)["steps"]]

    assert eventually(lambda: steps("p0")[-1] == "bound")
    assert steps("p0") == ["seen", "filtered", "bound"]
    found = koordpy.history("p0")
    assert (found["state"], found["node"]) == ("bound", nodes_of(plane)["p0"])
    assert found["steps"][1]["refused_by"] == {"LoadAwareScheduling": len(HOT)}

    def causes(name: str) -> list[str]:
        return [cause["cause"] for cause in koordpy.history(name)["causes"]]

    assert eventually(lambda: "reported" in steps("huge"))
    assert causes("huge") == ["RefusedInTree"]
    assert "Insufficient cpu" in koordpy.history("huge")["causes"][0]["message"]
    assert causes("gated") == ["Gated"]
    assert causes("foreign") == ["OtherScheduler"]
    text = koordpy.run("why", "--history", "default/p0", "--debug-server", debug_url(koordpy))
    assert text.returncode == 0, text.stderr
    assert "3 of 5 nodes are possible: LoadAwareScheduling refused 2" in text.stdout
    # Nobody binds here; a scheduler that still asks is told what to change.
    body = {"PodName": "p0", "PodNamespace": "default", "PodUID": found["uid"], "Node": found["node"]}
    url = f"http://127.0.0.1:{koordpy.ports['extender']}/extender/bind"
    assert "extender.mode: full" in httpx.post(url, json=body, timeout=30).json()["Error"]


def debug_url(koordpy: Koordpy) -> str:
    return f"http://127.0.0.1:{koordpy.ports['debug']}"


def examine(plane: ControlPlane, koordpy: Koordpy, folder: Path, scheduler: Document) -> None:
    """The doctor agrees with what works, and sees a bindVerb that must not be there."""
    create(plane, *yaml.safe_load_all(data.deploy("priorityclasses", "koordinator.yaml").read_text()))
    file = folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump({**scheduler, "leaderElection": {"leaderElect": False}}))
    options = ("doctor", "--config", str(koordpy.config), "--scheduler-config", str(file))
    well = koordpy.run(*options)
    assert well.returncode == 0, well.stdout + well.stderr
    entries = [{**entry, "bindVerb": "bind"} for entry in scheduler["extenders"]]
    file.write_text(yaml.safe_dump({**scheduler, "extenders": entries}))
    ill = koordpy.run(*options)
    assert ill.returncode == 1
    assert "koordpy runs in light mode: every bind is refused" in ill.stdout
    # The configuration asks for an election now, and nobody has ever led here.
    assert "kube-scheduler never led" in ill.stdout
