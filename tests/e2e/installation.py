"""An overlay installed on a real kube-apiserver, and its components run as their containers would be.

There are no kubelets: a component is a process with the files of its ConfigMaps and a token of its service
account, so it may do what the shipped roles allow and nothing else. The API server's audit log tells what it
did.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests import loopback
from tests.e2e.controlplane import build
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.manifests import render
from tests.manifests.rights import Request

Document = dict[str, Any]

NAMESPACE = "koordinator-system"

_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""


class Installation:
    """A control plane with an overlay applied. A context manager; it stops its components too.

    `before` are objects that the overlay needs.
    """

    def __init__(self, overlay: str, folder: Path, before: Sequence[Document] = ()) -> None:
        self.overlay, self.folder, self._before = overlay, folder, before
        self.documents = render.documents(overlay)
        self._components: list[Component] = []
        self._audit_log = folder / "audit.log"
        policy = folder / "policy.yaml"
        policy.write_text(_AUDIT_POLICY)
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={self._audit_log}")
        self.plane = ControlPlane(api_server_flags=flags)

    def __enter__(self) -> "Installation":
        self.plane.start()
        try:
            if self._before:
                self.create(*self._before)
            self.plane.kubectl("apply", "-f", "-", stdin=render.kustomize(self.overlay))
            self.plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        except BaseException:
            self.plane.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.plane.stop()

    def component(self, account: str, config_maps: dict[str, dict[str, str]]) -> "Component":
        """Return a component, not started yet, with the files of these ConfigMaps.

        With each goes what is different here than in a container: text and what takes its place, in which
        `{folder}` is the component's folder.
        """
        made = Component(self, account, self.folder / f"{account}-{len(self._components)}")
        for name, changes in config_maps.items():
            made.write(name, changes)
        self._components.append(made)
        return made

    def scheduler(self) -> tuple["Component", int]:
        """Run a pod of the scheduler's Deployment, extender first; return it and the extender's port."""
        port = free_port()
        changes = {
            "schedulerConfig:": f"port: {port}\n  schedulerConfig:",
            "http://127.0.0.1:9877": f"http://127.0.0.1:{port}",
            "leaderElection:": "clientConnection:\n  kubeconfig: {folder}/kubeconfig\nleaderElection:",
        }
        made = self.component(
            "koordpy-scheduler", {"koordpy-scheduler-config": changes, "koordpy-scheduler-profiles": {}}
        )
        made.start("koordpy-scheduler")
        made.start_kube_scheduler()
        return made, port

    def stop(self) -> None:
        """Stop all components, the last one first."""
        while self._components:
            self._components.pop().stop()

    def create(self, *documents: Document) -> None:
        """Create objects as an administrator."""
        self.plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def write_status(self, what: str, status: Document) -> None:
        """Write the status of `KIND/NAME` as its controller would."""
        patch = json.dumps({"status": status})
        self.plane.kubectl("patch", what, "--subresource=status", "--type=merge", "--patch", patch)

    def get(self, *what: str) -> Any:
        """Return an object or a list; None where there is no such object."""
        text = self.plane.kubectl("get", *what, "-o", "json", "--ignore-not-found").stdout
        return json.loads(text) if text else None

    def config_map(self, name: str) -> dict[str, str]:
        """Return the files of a ConfigMap, by its name before the hash."""
        [found] = [
            document["data"]
            for document in self.documents
            if document["kind"] == "ConfigMap" and document["metadata"]["name"].rpartition("-")[0] == name
        ]
        return dict(found)

    def kubeconfig_of(self, account: str) -> Document:
        """Return a kubeconfig with a token of a service account."""
        document: Document = yaml.safe_load(self.plane.kubeconfig.read_text())
        document["users"] = [{"name": "admin", "user": {"token": self.token_of(account)}}]
        return document

    def token_of(self, account: str) -> str:
        """Return a new token of a service account."""
        return self.plane.kubectl("create", "token", account, "-n", NAMESPACE, "--duration=1h").stdout.strip()

    def requests(self, account: str, agent: str = "koordpy/") -> dict[Request, bool]:
        """Return what a service account asked for, and whether the authorizer allowed it."""
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        found: dict[Request, bool] = {}
        for line in self._audit_log.read_text().splitlines():
            event = json.loads(line)
            about = event.get("objectRef")
            if about is None or event["user"].get("username") != user:
                continue
            if not event.get("userAgent", "").startswith(agent):
                continue
            request = Request(
                event["verb"],
                about.get("apiGroup", ""),
                "/".join(filter(None, (about["resource"], about.get("subresource")))),
                about.get("namespace", ""),
                about.get("name", ""),
            )
            allowed = event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
            found[request] = found.get(request, True) and allowed
        return found


class Component:
    """Processes with the token of one service account, in a folder with its configuration."""

    def __init__(self, installation: Installation, account: str, folder: Path) -> None:
        folder.mkdir()
        self.account, self.folder = account, folder
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(installation.kubeconfig_of(account)))
        self._installation = installation
        self._debug_port = free_port()
        self._processes: list[Process] = []

    def write(self, config_map: str, changes: dict[str, str]) -> None:
        """Write the files of a ConfigMap where the command line of the container expects them, but here."""
        for name, text in self._installation.config_map(config_map).items():
            here = {"/etc/koordpy": str(self.folder), "/var/run/koordpy/certs": f"{self.folder}/tls"}
            for old, new in {**here, **changes}.items():
                text = text.replace(old, new.replace("{folder}", str(self.folder)))
            (self.folder / name).write_text(text)

    def start(self, workload: str, *options: str, before: Sequence[str] = (), wait: bool = True) -> None:
        """Run koordpy as the container of a Deployment or DaemonSet does, until it is ready.

        `before` is what starts it, such as a command that takes privileges away; with `wait` off it may never
        become ready.
        """
        [spec] = [
            document["spec"]["template"]["spec"]
            for document in self._installation.documents
            if document["kind"] in ("Deployment", "DaemonSet") and document["metadata"]["name"] == workload
        ]
        containers = [*spec.get("initContainers", []), *spec["containers"]]
        [args] = [found["args"] for found in containers if found["name"] == "koordpy"]
        command = [argument.replace("/etc/koordpy", str(self.folder)) for argument in args]
        process = Process(
            "koordpy",
            [
                *before,
                sys.executable,
                "-c",
                "from koordpy.cli import main; main()",
                *command,
                f"--kubeconfig={self.kubeconfig}",
                f"--debug-bind=127.0.0.1:{self._debug_port}",
                *options,
            ],
            self.folder,
        )
        self._processes.append(process)
        if wait:
            process.wait_ready(self._is_ready)

    def start_kube_scheduler(self) -> None:
        """Run the stock kube-scheduler with this component's token and configuration."""
        process = Process(
            "kube-scheduler",
            [
                build.ensure(["kube-scheduler"])["kube-scheduler"],
                f"--config={self.folder / 'kube-scheduler-config.yaml'}",
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}",
            ],
            self.folder,
        )
        self._processes.append(process)

    def debug(self, path: str) -> Any:
        """Return what the debug API answers."""
        answer = loopback.get(f"http://127.0.0.1:{self._debug_port}{path}")
        answer.raise_for_status()
        return answer.json()

    def status(self, path: str) -> int:
        """Return the status with which the debug API answers a caller with a new token of this account."""
        headers = {"Authorization": f"Bearer {self._installation.token_of(self.account)}"}
        for scheme in ("https", "http"):
            with suppress(httpx.HTTPError):
                url = f"{scheme}://127.0.0.1:{self._debug_port}{path}"
                return loopback.get(url, headers=headers).status_code
        return 0

    def logs(self) -> str:
        """The end of each process' log."""
        return "\n".join(process.log_tail() for process in self._processes)

    def stop(self) -> None:
        """End the processes, the last one first."""
        while self._processes:
            self._processes.pop().stop()

    def _is_ready(self) -> bool:
        return any(
            loopback.is_ready(f"{scheme}://127.0.0.1:{self._debug_port}/readyz")
            for scheme in ("http", "https")
        )
