"""koordpy beside the cluster's own kube-scheduler, and outside of the cluster, by the commands of the docs.

kube-scheduler itself presents the client certificate that koordpy generated; other callers bind nothing.
"""

import json
import re
import shutil
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from koordpy.lib import certificates
from tests import loopback
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.e2e.serving import Document, create, pod
from tests.e2e.test_install_safety import commands, shell
from tests.eventually import PATIENCE, eventually
from tests.manifests import render

pytestmark = pytest.mark.timeout(600)

REFUSED = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
PAGE = "docs/out-of-cluster.md"


class Machine:
    """A machine with a checkout, on which koordpy runs beside a control plane."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self.ports = {name: free_port() for name in ("9876", "9877", "10251", "10252")}
        self.processes: list[Process] = []
        (folder / "deploy").symlink_to(render.DEPLOY)

    def local(self, text: str) -> str:
        """Return commands or a file with loopback and free ports in place of addresses and ports."""
        for port, free in self.ports.items():
            text = re.sub(rf"(:\s?){port}\b", rf"\g<1>{free}", text)
        return text.replace("10.0.0.5", "127.0.0.1").replace("0.0.0.0", "127.0.0.1")

    def run(self, script: str) -> str:
        """Run commands; return what they print."""
        done = shell(self.plane, self.folder, f"set -e\n{self.local(script)}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *arguments: str, debug: str = "10251") -> None:
        """Start a process of koordpy; return when it is ready."""
        command = [sys.executable, "-c", "from koordpy.cli import main; main()", *arguments]
        process = Process(f"koordpy-{debug}", command, self.folder)
        self.processes.append(process)
        url = f"http://127.0.0.1:{self.ports[debug]}/readyz"
        process.wait_ready(lambda: loopback.is_ready(url))

    def koordpy(self, *arguments: str) -> str:
        return self.run(f"koordpy {' '.join(arguments)}")

    def why(self, name: str) -> str:
        return self.koordpy("why", f"default/{name}", "--debug-server", self.debug_url)

    @property
    def debug_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['10251']}"

    def stop(self) -> None:
        self.plane.stop_scheduler()
        for process in reversed(self.processes):
            process.stop()

    # --- the cluster -----------------------------------------------------------------------------

    def add_node(self) -> None:
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        create(self.plane, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status})

    def node_of(self, name: str) -> str:
        found: Document = json.loads(self.plane.kubectl("get", "pod", name, "-o", "json").stdout)
        return str(found["spec"].get("nodeName", ""))

    def reserve(self) -> None:
        """Create a Reservation for pods of the app `web`, and wait until koordpy has placed it."""
        spec = {"template": {"spec": pod("t", cpu="2")["spec"]}, "allocateOnce": False, "ttl": "1h"}
        spec["owners"] = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
        meta = {"name": "for-web"}
        kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation"}
        create(self.plane, {**kind, "metadata": meta, "spec": spec})
        phase = ("get", "reservation", "for-web", "-o", "jsonpath={.status.phase}")
        assert eventually(lambda: self.plane.kubectl(*phase).stdout == "Available"), self.logs()

    def logs(self) -> str:
        return "\n".join([self.plane.logs(), *(process.log_tail(40) for process in self.processes)])

    def assert_only_kube_scheduler_is_served(self, folder: Path) -> None:
        """Calls without the client certificate bind nothing, whatever they are."""
        create(self.plane, pod("bait", cpu="64"))
        uid = self.plane.kubectl("get", "pod", "bait", "-o", "jsonpath={.metadata.uid}").stdout
        call = {"PodName": "bait", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
        address = f"127.0.0.1:{self.ports['9877']}/extender/bind"
        strangers = self.folder / "strangers"
        certificates.ensure(strangers, ["localhost"], datetime.now(UTC), client="kube-scheduler")
        for url, pair in (
            (f"http://{address}", None),
            (f"https://{address}", None),
            (f"https://{address}", strangers),
        ):
            with client(pair) as caller, pytest.raises(REFUSED):
                caller.post(url, json=call)
        assert self.node_of("bait") == ""
        with client(folder) as caller:
            page = {"content-type": "text/plain"}
            answer = caller.post(f"https://{address}", content=json.dumps(call), headers=page)
        assert answer.status_code == 415
        assert self.node_of("bait") == ""


def client(folder: Path | None) -> httpx.Client:
    """Return a client that presents the client certificate in a folder, and verifies nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if folder is not None:
        context.load_cert_chain(folder / certificates.CLIENT_CERT, folder / certificates.CLIENT_KEY)
    return httpx.Client(verify=context, trust_env=False, timeout=PATIENCE)


@pytest.fixture
def authority() -> certificates.KeyPair:
    return certificates.make_ca("clients of the API server", datetime.now(UTC))


@pytest.fixture
def machine(tmp_path: Path, authority: certificates.KeyPair) -> Iterator[Machine]:
    clients = tmp_path / "clients.crt"
    clients.write_bytes(authority.cert)
    folder = tmp_path / "machine"
    folder.mkdir()
    with ControlPlane(api_server_flags=[f"--client-ca-file={clients}"]) as plane:
        made = Machine(plane, folder)
        try:
            yield made
        finally:
            made.stop()


def owner() -> Document:
    found = pod("owner", cpu="1")
    found["metadata"]["labels"] |= {"app": "web", "colocated": "yes"}
    return found


def test_everything_runs_outside_of_the_cluster(machine: Machine) -> None:
    for block in commands(PAGE, "Definitions, rights and a kubeconfig"):
        machine.run(block)
    for heading in ("Webhooks and extender", "Worker"):
        block, *with_agents = commands(PAGE, heading)
        files, _, last = block.rpartition("koordpy ")
        machine.run(files)
        for more in with_agents:
            machine.run(more)
        machine.start(*last.split(), debug="10251" if last.startswith("serve") else "10252")
    copies = machine.folder / "copies"
    copies.mkdir()
    for name in (certificates.CA_CERT, certificates.CLIENT_CERT, certificates.CLIENT_KEY):
        shutil.copy(machine.folder / "extender-certs" / name, copies)
    [block] = commands(PAGE, "kube-scheduler")
    script = block.replace("/etc/kubernetes/koordpy", str(copies))
    assert shell(machine.plane, machine.folder, script).returncode == 0
    file = machine.folder / "kube-scheduler-config.yaml"
    # The control plane here runs kube-scheduler without a Lease.
    file.write_text(machine.local(file.read_text()).replace("leaderElect: true", "leaderElect: false"))
    config = yaml.safe_load(file.read_text())
    assert config["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    del config["clientConnection"]
    machine.plane.start_scheduler(config)
    machine.add_node()
    create(machine.plane, PROFILE)
    machine.reserve()
    create(machine.plane, owner())
    assert eventually(lambda: machine.node_of("owner") == "n1"), machine.logs()
    admitted: Any = json.loads(machine.plane.kubectl("get", "pod", "owner", "-o", "json").stdout)
    assert admitted["metadata"]["labels"]["koordinator.sh/qosClass"] == "LS"
    assert "n1 in Reservation for-web" in machine.why("owner")
    machine.assert_only_kube_scheduler_is_served(copies)
    machine.koordpy("health", "--debug-server", machine.debug_url)
    [block] = commands(PAGE, "Checking")
    doctor = block[block.index("koordpy doctor") :]
    examined = machine.run(doctor.replace("~/.kube/config", str(machine.plane.kubeconfig)))
    assert "load-aware placement is blind on all 1 node(s)" in examined


PROFILE: Document = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "colocated"},
    "spec": {"selector": {"matchLabels": {"colocated": "yes"}}, "qosClass": "LS"},
}


def test_the_extender_works_with_kube_schedulers_credentials_as_with_kubeadm(
    machine: Machine, authority: certificates.KeyPair
) -> None:
    heading = "Beside the cluster's own kube-scheduler"
    roles, files = commands("docs/install.md", heading)
    machine.run(roles)
    etc = machine.folder / "etc"
    machine.run(files.replace("/etc/kubernetes", str(etc)))
    pair = certificates.issue_client(authority, "system:kube-scheduler", datetime.now(UTC))
    (etc / "client.crt").write_bytes(pair.cert)
    (etc / "client.key").write_bytes(pair.key)
    document = yaml.safe_load(machine.plane.kubeconfig.read_text())
    document["users"][0]["user"] = {
        "client-certificate": str(etc / "client.crt"),
        "client-key": str(etc / "client.key"),
    }
    (etc / "scheduler.conf").write_text(yaml.safe_dump(document))
    patch = yaml.safe_load((render.DEPLOY / "kubeadm" / "kube-scheduler+strategic.yaml").read_text())
    [sidecar] = patch["spec"]["initContainers"]
    run, certs = "/var/run/koordpy/extender", machine.folder / "extender"

    def here(text: str) -> str:
        return text.replace("/etc/kubernetes", str(etc)).replace(run, str(certs))

    machine.start(
        *map(here, sidecar["args"]),
        f"--extender-bind=127.0.0.1:{machine.ports['9877']}",
        f"--debug-bind=127.0.0.1:{machine.ports['10251']}",
    )
    config = yaml.safe_load(machine.local(here((etc / "koordpy" / "kube-scheduler-config.yaml").read_text())))
    machine.plane.start_scheduler(config)
    machine.add_node()
    machine.reserve()
    create(machine.plane, owner())
    assert eventually(lambda: machine.node_of("owner") == "n1"), machine.logs()
    assert "n1 in Reservation for-web" in machine.why("owner")
    machine.assert_only_kube_scheduler_is_served(certs)
