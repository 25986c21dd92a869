"""A PreEnqueue plugin beside kube-scheduler: the pod is gated, reported, let go and placed.

kube-apiserver calls the shipped webhook, kube-scheduler the shipped extender; the process runs here, with a
plugin that no package provides.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from koordpy import data, settings
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.scheduling.profiles import registry
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import free_port
from tests.e2e.serving import Document, add_node, create, pod
from tests.eventually import PATIENCE
from tests.integration.service.test_pre_enqueue import Opening
from tests.processes import serve_process

SYSTEM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
OPEN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "open", "namespace": "default"}}


async def test_a_pod_is_gated_until_its_plugin_lets_it_into_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = registry.installed().including(Opening)
    monkeypatch.setattr(registry, "installed", lambda: known)
    with ControlPlane() as plane:
        plane.install_crds()
        create(plane, SYSTEM)
        for file in ("mutating.yaml", "validating.yaml"):
            plane.kubectl("create", "-f", str(data.deploy("webhooks", file)))
        add_node(plane, "n0", "1")
        process = serve_process(settings.load(None, configuration(plane, tmp_path)))
        try:
            await process.start()
            await process.wait_ready(PATIENCE)
            plane.start_scheduler(scheduler(process.listeners["extender"].url))
            await asyncio.to_thread(create, plane, waiting("gated"), pod("plain"))
            assert (await live(plane, "gated")).gates == [gate_of("Opening")]
            assert (await live(plane, "plain")).gates == []
            await becomes(plane, "plain", lambda pod: pod.node == "n0")
            await becomes(
                plane, "gated", lambda pod: pod.reported == ("NotReadyForScheduling", "Opening: closed")
            )
            assert (await live(plane, "gated")).node == ""
            await asyncio.to_thread(create, plane, OPEN)
            await becomes(plane, "gated", lambda pod: pod.node == "n0")
            assert (await live(plane, "gated")).gates == []
        finally:
            plane.stop_scheduler()
            await process.stop()


def configuration(plane: ControlPlane, folder: Path) -> Document:
    """Settings of a process with webhooks that are called by URL, and the shipped profile with Opening."""
    profiles = yaml.safe_load(data.deploy("scheduler", "koordpy-profiles.yaml").read_text())
    profile = profiles["profiles"][0]
    profile["schedulerName"] = "default-scheduler"
    profile["plugins"]["preEnqueue"] = {"enabled": [{"name": "Opening"}]}
    file = folder / "profiles.yaml"
    file.write_text(yaml.safe_dump({**profiles, "profiles": [profile]}))
    return {
        "parts": ["admission", "extender"],
        "client": {"kubeconfig": str(plane.kubeconfig)},
        "shutdownDelay": "0s",
        "admission": {
            "bindAddress": "127.0.0.1",
            "port": free_port(),
            "certDir": str(folder / "certs"),
            "certificates": {"mode": "secret", "host": "127.0.0.1"},
        },
        "extender": {"port": 0, "schedulerConfig": str(file), "leaderElect": False},
    }


def scheduler(url: str) -> Document:
    """Return the shipped configuration of kube-scheduler, for a process at a URL."""
    document: Document = yaml.safe_load(data.deploy("scheduler", "kube-scheduler-config.yaml").read_text())
    for entry in document["extenders"]:
        entry["urlPrefix"] = f"{url}/extender"
    document["profiles"] = [{"schedulerName": "default-scheduler"}]
    return document


def waiting(name: str) -> Document:
    """Return a pod that the plugin may refuse."""
    document = pod(name)
    document["metadata"]["labels"] |= {"waits": "yes"}
    return document


class Live(NamedTuple):
    """What matters of a pod; `reported` are reason and message of its PodScheduled condition."""

    gates: list[str]
    node: str
    reported: tuple[str, str]


async def live(plane: ControlPlane, name: str) -> Live:
    """Read a pod. In a thread: the process, which kube-apiserver calls, is in this one."""
    done = await asyncio.to_thread(plane.kubectl, "get", "pod", name, "-o", "json")
    found = yaml.safe_load(done.stdout)
    conditions = (c for c in found["status"].get("conditions", []) if c["type"] == "PodScheduled")
    reported = next(((c.get("reason", ""), c.get("message", "")) for c in conditions), ("", ""))
    spec = found["spec"]
    return Live(
        [gate["name"] for gate in spec.get("schedulingGates", [])], spec.get("nodeName", ""), reported
    )


async def becomes(plane: ControlPlane, name: str, holds: Callable[[Live], bool]) -> None:
    """Wait until something holds for a pod."""
    async with asyncio.timeout(PATIENCE):
        while not holds(await live(plane, name)):
            await asyncio.sleep(0.1)
