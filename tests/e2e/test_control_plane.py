"""The real control plane itself: it comes up, schedules, survives its scheduler, and leaves nothing
behind.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.plane import ControlPlane
from tests.eventually import eventually
from tests.integration.apiserver.objects import config_map, node, pod
from tests.integration.apiserver.rest import Rest, ok

PROJECT = Path(__file__).parents[2]

SCHEDULER: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
}


@pytest.fixture
def rest(control_plane: ControlPlane) -> Iterator[Rest]:
    client = Rest(control_plane.url, token=control_plane.token, tls=control_plane.ssl_context())
    with client.http:
        yield client


def test_kubectl_reaches_it(control_plane: ControlPlane) -> None:
    assert "v1.35" in control_plane.kubectl("version").stdout


def test_scheduler_binds_pods_and_can_be_restarted(control_plane: ControlPlane, rest: Rest) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    document = node("story-node")
    document["status"]["conditions"] = [ready]
    ok(rest.collection("nodes").create(document), 201)
    pods = rest.collection("pods", "default")

    def bound(name: str) -> Callable[[], bool]:
        return lambda: ok(pods.get(name))["spec"].get("nodeName") == "story-node"

    ok(pods.create(pod("first")), 201)
    scheduler = control_plane.start_scheduler(SCHEDULER)
    try:
        assert eventually(bound("first")), scheduler.log_tail()
        scheduler.kill()
        ok(pods.create(pod("second")), 201)
        control_plane.start_scheduler(SCHEDULER)
        assert eventually(bound("second")), control_plane.logs()
    finally:
        control_plane.stop_scheduler()
        for name in ("first", "second"):
            pods.delete(name, {"gracePeriodSeconds": 0})
        rest.collection("nodes").delete("story-node")


def test_api_server_comes_back_with_its_objects(control_plane: ControlPlane, rest: Rest) -> None:
    maps = rest.collection("configmaps", "default")
    ok(maps.create(config_map("kept", key="value")), 201)
    assert control_plane.api_server is not None
    control_plane.api_server.kill()
    control_plane.start_api_server()
    assert ok(maps.get("kept"))["data"] == {"key": "value"}


def test_koordpys_custom_resources_are_installed(control_plane: ControlPlane, rest: Rest) -> None:
    control_plane.install_crds()
    reservations = rest.collection("reservations", "", "scheduling.koordinator.sh/v1alpha1")
    assert eventually(lambda: reservations.list().status_code == 200)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of a killed process")
def test_nothing_survives_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "from tests.e2e.controlplane.plane import ControlPlane\n"
        "import pathlib, sys, time\n"
        "with ControlPlane(folder=pathlib.Path(sys.argv[1])) as plane:\n"
        "    print(plane.etcd.pid, plane.api_server.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    parent = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert eventually(lambda: not any(running(pid) for pid in pids))


def running(pid: int) -> bool:
    """Whether the process lives; a zombie, which no process reaps in a container, does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
