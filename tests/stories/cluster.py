"""A cluster with koordpy in it: our process beside a control plane, registered as an operator would."""

import base64
import copy
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes
import msgspec
import yaml
from kubernetes.client.exceptions import ApiException

from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.resources import node_allocatable, pod_node_request_vector, quantities, vector
from koordpy.api.scheme import decode
from koordpy.lib import certificates
from tests import loopback
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.manifests.policies import fail_closed
from tests.stories.planes import Plane, documents

GI = 1024**3


PRE_BIND_ANNOTATION = "stories.koordpy.dev/bound-to"

FAILS_ONCE = "stories.koordpy.dev/fails-once"
"""Label of pods whose first bind fails."""

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"

_PLUGIN = f'''
from koordpy.scheduling.interface import Plugin, PreBind
from koordpy.scheduling.interface.status import SUCCESS, Status


class StoryStamp(Plugin, PreBind):
    """Writes where a pod is bound to into the pod itself; some pods fail the first time."""

    name = "StoryStamp"
    failed = set()

    async def pre_bind(self, state, pod, node_name, binding):
        if "{FAILS_ONCE}" in pod.metadata.labels and pod.metadata.uid not in self.failed:
            self.failed.add(pod.metadata.uid)
            return Status.failed("the story wants it")
        binding.annotations["{PRE_BIND_ANNOTATION}"] = node_name
        return SUCCESS
'''


def _install_plugin(folder: Path) -> None:
    """Lay out a package with a PreBind plugin as pip would."""
    info = folder / "koordpy_story-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "koordpy_story.py").write_text(_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: koordpy-story\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[koordpy.scheduling]\nStoryStamp = koordpy_story:StoryStamp\n")


class KoordpyProcess:
    """`koordpy serve` as a process of its own, on ports that stay the same over restarts."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self._folder = folder
        self.ports = {part: free_port() for part in ("admission", "extender", "debug")}
        settings = {
            "apiVersion": "config.koordpy.dev/v1alpha1",
            "kind": "KoordpyConfiguration",
            "client": plane.client_settings,
            "admission": {
                "bindAddress": "127.0.0.1",
                "port": self.ports["admission"],
                "certDir": str(folder / "certs"),
            },
            "extender": {
                "port": self.ports["extender"],
                "schedulerConfig": "profiles.yaml",
                "decisions": 5000,
                "leaderElect": False,
            },
            "debug": {"port": self.ports["debug"]},
        }
        (folder / "koordpy.yaml").write_text(yaml.safe_dump(settings))
        [profiles] = documents(
            "kustomize", "components", "reservations", "koordpy-profiles-reservations.yaml"
        )
        for profile in profiles["profiles"]:
            profile["plugins"]["preBind"] = {"enabled": [{"name": "StoryStamp"}]}
        (folder / "profiles.yaml").write_text(yaml.safe_dump(profiles))
        _install_plugin(folder / "site")
        path = [str(folder / "site"), os.environ.get("PYTHONPATH", "")]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, **parts: dict[str, Any]) -> None:
        """Lay settings over those of some parts, before the start."""
        file = self._folder / "koordpy.yaml"
        settings = yaml.safe_load(file.read_text())
        for part, changes in parts.items():
            settings[part] |= changes
        file.write_text(yaml.safe_dump(settings))

    def start(self) -> None:
        with (self._folder / "koordpy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from koordpy.cli import main; main()",
                    "serve",
                    "--config",
                    "koordpy.yaml",
                ],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_ready, lambda: f"koordpy is not ready:\n{self.log()}")

    def kill(self) -> None:
        """End it without a chance to clean up."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def log(self) -> str:
        return (self._folder / "koordpy.log").read_text(errors="replace")[-4000:]

    def get(self, path: str) -> Any:
        answer = loopback.get(f"http://127.0.0.1:{self.ports['debug']}{path}")
        answer.raise_for_status()
        return answer.json()

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command that asks this process; return its exit code and what it prints."""
        code = "from koordpy.cli import main; main()"
        server = ("--debug-server", f"http://127.0.0.1:{self.ports['debug']}")
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments, *server],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"koordpy ended with {self._process.returncode}:\n{self.log()}")
        return loopback.is_ready(f"http://127.0.0.1:{self.ports['debug']}/readyz")


class StoryCluster:
    """Everything a story does to a cluster, through the official Python client."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self._api = plane.api()
        self._pool = ThreadPoolExecutor(4)
        # Documents are sent and raw answers read, which the client's types do not know of.
        self.core: Any = kubernetes.client.CoreV1Api(self._api)
        self.custom: Any = kubernetes.client.CustomObjectsApi(self._api)
        self._scheduling: Any = kubernetes.client.SchedulingV1Api(self._api)
        self._registration: Any = kubernetes.client.AdmissionregistrationV1Api(self._api)
        self.koordpy = KoordpyProcess(plane, folder)

    def close(self) -> None:
        self.koordpy.stop()
        self.plane.stop()
        self._pool.shutdown()

    # --- setting the scene -----------------------------------------------------------------------

    def install(self, profiles: Iterable[dict[str, Any]]) -> None:
        """Create priority classes and profiles, start koordpy, register it, start the scheduler."""
        for document in documents("priorityclasses", "koordinator.yaml"):
            self._scheduling.create_priority_class(document)
        for profile in profiles:
            self.custom.create_cluster_custom_object(
                "config.koordinator.sh", "v1alpha1", "clustercolocationprofiles", profile
            )
        self.koordpy.start()
        [webhooks] = map(fail_closed, documents("webhooks", "mutating.yaml"))
        webhooks["webhooks"] = [w for w in webhooks["webhooks"] if w["name"].startswith("mpod-")]
        bundle = base64.b64encode(certificates.ca_bundle(self.folder / "certs")).decode()
        for webhook in webhooks["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            url = f"https://127.0.0.1:{self.koordpy.ports['admission']}{path}"
            webhook["clientConfig"] = {"url": url, "caBundle": bundle}
        self._registration.create_mutating_webhook_configuration(webhooks)
        [config] = documents("scheduler", "kube-scheduler-config.yaml")
        config["leaderElection"] = {"leaderElect": False}
        config["clientConnection"] = {"qps": 10000, "burst": 10000}
        for extender in config["extenders"]:
            extender["urlPrefix"] = f"http://127.0.0.1:{self.koordpy.ports['extender']}/extender"
        self.plane.start_scheduler(config)

    def namespace(self, name: str, **labels: str) -> None:
        self.core.create_namespace({"metadata": {"name": name, "labels": labels}})

    def add_nodes(self, nodes: Iterable[tuple[str, dict[str, str]]]) -> None:
        """Create ready nodes with these amounts of resources."""

        def create(node: tuple[str, dict[str, str]]) -> None:
            name, amounts = node
            status = {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "test"}],
            }
            meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
            self.core.create_node({"metadata": meta, "status": status})

        list(self._pool.map(create, nodes))

    def report_usage(self, node: str, cpu: str, memory: str) -> None:
        """Write a NodeMetric as the node's agent would."""
        group, version, plural = "slo.koordinator.sh", "v1alpha1", "nodemetrics"
        metric = {
            "apiVersion": f"{group}/{version}",
            "kind": "NodeMetric",
            "metadata": {"name": node},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        }
        status = {
            "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": memory}}},
        }
        created = self.custom.create_cluster_custom_object(group, version, plural, metric)
        self.custom.replace_cluster_custom_object_status(
            group, version, plural, node, {**created, "status": status}
        )

    def create_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        """Create pods, trying again where the webhook could not be reached (it is being restarted)."""

        def create(pod: dict[str, Any]) -> None:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    self.core.create_namespaced_pod(pod["metadata"]["namespace"], pod)
                    return
                except ApiException as error:
                    if error.status != 500 or time.monotonic() > deadline:
                        raise
                    time.sleep(0.5)

        list(self._pool.map(create, pods))

    # --- looking ---------------------------------------------------------------------------------

    def pods(self, namespace: str | None = None) -> list[dict[str, Any]]:
        if namespace is None:
            found = self.core.list_pod_for_all_namespaces(_preload_content=False)
        else:
            found = self.core.list_namespaced_pod(namespace, _preload_content=False)
        return list(_json(found.data)["items"])

    def explanations(self, namespace: str) -> list[dict[str, Any]]:
        found = self.custom.list_namespaced_custom_object(
            "scheduling.koordinator.sh", "v1alpha1", namespace, "scheduleexplanations"
        )
        return list(found["items"])

    def wait_bound(self, count: int, namespace: str, seconds: float = PATIENCE) -> dict[str, dict[str, Any]]:
        """Return the namespace's pods by name once `count` of them have a node."""
        found: dict[str, dict[str, Any]] = {}

        def bound() -> bool:
            nonlocal found
            found = {p["metadata"]["name"]: p for p in self.pods(namespace) if p["spec"].get("nodeName")}
            return len(found) >= count

        wait_until(bound, lambda: f"{len(found)} of {count} pods are bound\n{self.koordpy.log()}", seconds)
        return found

    def assert_no_node_is_over_committed(self) -> None:
        """Add up all requests as Kubernetes counts them and compare with what nodes offer."""
        nodes = {
            n["metadata"]["name"]: n for n in _json(self.core.list_node(_preload_content=False).data)["items"]
        }
        used: dict[str, Counter[str]] = defaultdict(Counter)
        for document in self.pods():
            if document["spec"].get("nodeName"):
                pod = decode(Pod, document)
                used[pod.spec.node_name].update(pod_node_request_vector(pod))
                used[pod.spec.node_name]["pods"] += 1
        for name, amounts in used.items():
            offered = node_allocatable(decode(Node, nodes[name]))
            over = {r: (v, offered.get(r, 0)) for r, v in amounts.items() if v > offered.get(r, 0)}
            assert not over, f"{name} is over-committed: {over}"

    def reserve(self, name: str, cpu: str) -> None:
        """Create a Reservation for pods with the label `app: NAME`, which keep to it."""
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {"spec": {"containers": [container]}},
                "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                "allocateOnce": False,
                "allocatePolicy": "Restricted",
            },
        }
        self.custom.create_cluster_custom_object(
            "scheduling.koordinator.sh", "v1alpha1", "reservations", document
        )

    def reservations(self) -> list[Reservation]:
        found = self.custom.list_cluster_custom_object(
            "scheduling.koordinator.sh", "v1alpha1", "reservations"
        )
        return [decode(Reservation, item) for item in found["items"]]

    def assert_nothing_reserved_is_given_away(self) -> None:
        """Each node has the CPU of its pods and, beside that, what no owner uses of its Reservations."""
        left: Counter[str] = Counter()
        for document in _json(self.core.list_node(_preload_content=False).data)["items"]:
            left[document["metadata"]["name"]] = node_allocatable(decode(Node, document))["cpu"]
        used: Counter[str] = Counter()
        for document in self.pods():
            pod = decode(Pod, document)
            cpu = pod_node_request_vector(pod)["cpu"]
            left[pod.spec.node_name] -= cpu
            allocated = msgspec.json.decode(pod.metadata.annotations.get(ALLOCATED, "{}"))
            used[allocated.get("uid", "")] += cpu
        for reservation in self.reservations():
            if reservation.is_available:
                held = vector(quantities(reservation.status.allocatable))["cpu"]
                assert used[reservation.metadata.uid] <= held
                left[reservation.node_name] -= held - used[reservation.metadata.uid]
        del left[""]
        assert all(cpu >= 0 for cpu in left.values()), left

    def assert_memory_equals_a_rebuild(self) -> None:
        """Compare what our process counts on every node with what the API objects say."""
        used: dict[str, Counter[str]] = defaultdict(Counter)
        for document in self.pods():
            if document["spec"].get("nodeName"):
                pod = decode(Pod, document)
                used[pod.spec.node_name].update(pod_node_request_vector(pod))
                used[pod.spec.node_name]["pods"] += 1
        for name, amounts in used.items():

            def agrees(name: str = name, amounts: Counter[str] = amounts) -> bool:
                known = self.koordpy.get(f"/apis/v1/nodes/{name}")
                requested = known["requested"]
                return (requested["MilliCPU"], requested["Memory"], len(known.get("pods", []))) == (
                    amounts["cpu"],
                    amounts["memory"],
                    amounts["pods"],
                )

            wait_until(agrees, partial("our view of {} differs from the API objects".format, name))


def pod(namespace: str, name: str, labels: dict[str, str], cpu: str, memory: str) -> dict[str, Any]:
    """Return a pod with one container."""
    amounts = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"containers": [container]},
    }


def pods_of_deployment(deployment: dict[str, Any], namespace: str, replicas: int) -> list[dict[str, Any]]:
    """Return the pods that a Deployment's controllers would create."""
    template = deployment["spec"]["template"]
    name = deployment["metadata"]["name"]
    pods = []
    for i in range(replicas):
        document = copy.deepcopy(template)
        document |= {"apiVersion": "v1", "kind": "Pod"}
        document["metadata"] = {**template["metadata"], "name": f"{name}-{i}", "namespace": namespace}
        document["spec"].pop("serviceAccountName", None)  # no controller makes their tokens here
        pods.append(document)
    return pods


def wait_until(
    condition: Callable[[], bool], complaint: Callable[[], str], seconds: float = PATIENCE
) -> None:
    """Poll a condition; fail with the complaint when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.1)


def _json(data: bytes) -> Any:

    return msgspec.json.decode(data)
