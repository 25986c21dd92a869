"""The node agent with one of its rights taken away, on a kube-apiserver with RBAC.

It runs as the container of the DaemonSet does: with the token of its service account, and as root without any
capability where the machine lets a test take these. Without a right, what needs it says so and nothing else
fails; with the right again, it works, without a restart of the agent unless it waits for its states.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from koordpy.agent.engine.eviction_metrics import EvictionMetrics
from koordpy.agent.engine.evictor import Evictor
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import SystemClock
from tests.e2e import taken_rights
from tests.e2e.installation import NAMESPACE, Component, Document, Installation
from tests.eventually import PATIENCE, eventually
from tests.integration.worker.stage import NodeFiles
from tests.privileged import as_root_without_capabilities

pytestmark = pytest.mark.timeout(600)

ACCOUNT = "koordpy-qos-agent"
NODE = "colocated"
FOLLOWED = ("nodes", "pods", "nodeslos", "nodemetrics", "noderesourcetopologies")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with a node, its policies and its topology."""
    with Installation("agent-gates", tmp_path_factory.mktemp("installation")) as made:
        capacity = {"cpu": "8", "memory": "8Gi", "pods": "20"}
        made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        made.write_status(f"node/{NODE}", {"capacity": capacity, "allocatable": capacity})
        section = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset"}
        made.create(
            {
                "apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeSLO",
                "metadata": {"name": NODE},
                "spec": {"resourceUsedThresholdWithBE": section},
            },
            {
                "apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeMetric",
                "metadata": {"name": NODE},
                "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 30}},
            },
            pod("best-effort"),
            *may_read("/configz"),
        )
        yield made


def may_read(path: str) -> Iterator[Document]:
    """Yield what lets the agent's own account read a path of the debug API."""
    api, name = "rbac.authorization.k8s.io", "reader-of-debug-api"
    meta = {"name": name}
    rules = [{"nonResourceURLs": [path], "verbs": ["get"]}]
    yield {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    yield {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }


def pod(name: str) -> Document:
    container = {"name": "c", "image": "i"}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": NODE, "containers": [container]},
    }


def without(installation: Installation, verb: str, *resources: str) -> AbstractContextManager[None]:
    """Take a verb on resources from every role of the agent; give it back at the end."""
    return taken_rights.without(installation, ACCOUNT, verb, *resources)


class Agent:
    """The agent's process on files of a node."""

    def __init__(self, installation: Installation, folder: Path, **options: str) -> None:
        self.files = NodeFiles(folder, 1)
        roots = "\n  ".join(f"{name}: {path}" for name, path in self.files.settings.items())
        changes = {"cgroupRoot: /host/sys/fs/cgroup": roots, "pod-source: kubelet": "pod-source: apiserver"}
        self.component = installation.component(ACCOUNT, {f"{ACCOUNT}-config": changes})
        self.options = {
            "node-name": NODE,
            "proc-root-dir": str(self.files.proc),
            "sys-root-dir": str(self.files.sys),
            "sys-fs-root-dir": str(self.files.sys / "fs"),
            "node-topology-sync-interval": "1s",
            "changes-dir": str(folder / "changes"),
            **options,
        }

    @property
    def log(self) -> str:
        return (self.component.folder / "koordpy.log").read_text(errors="replace")

    def start(self, *, wait: bool = True) -> None:
        options = [f"--{name}={value}" for name, value in self.options.items()]
        self.component.start(ACCOUNT, *options, before=as_root_without_capabilities(), wait=wait)

    def says(self, *words: str) -> bool:
        """Return whether a line of the log has all these words, once that is so."""
        return bool(
            eventually(lambda: any(all(word in line for word in words) for line in self.log.splitlines()))
        )


@pytest.fixture
def agent(installation: Installation, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(installation, tmp_path / "node")
    yield made
    made.component.stop()


def expect(holds: Callable[[], bool], component: Component) -> None:
    assert eventually(holds), component.logs()


def test_without_its_states_the_agent_waits_says_why_and_enforces_nothing(
    installation: Installation, agent: Agent
) -> None:
    with without(installation, "list", *FOLLOWED, "daemonsets"):
        agent.start(wait=False)
        for resource in (*FOLLOWED, "daemonsets"):
            assert agent.says(f'cannot list resource "{resource}"'), agent.log
        assert agent.files.cpus() == "0-7"
        assert agent.component.status("/readyz") != 200
    # Given back, it works without a restart.
    expect(lambda: agent.files.cpus() != "0-7", agent.component)


def test_rights_that_are_taken_from_a_running_agent(installation: Installation, agent: Agent) -> None:
    of_node = ("noderesourcetopologies", NODE)
    installation.plane.kubectl("delete", *of_node, "--ignore-not-found")
    with without(installation, "list", "persistentvolumeclaims"):
        with without(installation, "create", "noderesourcetopologies"):
            agent.start(wait=False)
            expect(lambda: agent.files.cpus() != "0-7", agent.component)
            assert agent.says('cannot create resource "noderesourcetopologies"'), agent.log
            assert agent.says('cannot list resource "persistentvolumeclaims"'), agent.log
            assert installation.get(*of_node) is None
        expect(lambda: installation.get(*of_node) is not None, agent.component)
    for verb in ("get", "update"):
        with without(installation, verb, "noderesourcetopologies"):
            installation.plane.kubectl("patch", *of_node, "--type=merge", "--patch", '{"zones": []}')
            assert agent.says(f'cannot {verb} resource "noderesourcetopologies"'), agent.log
            assert not installation.get(*of_node)["zones"]
        expect(lambda: bool(installation.get(*of_node)["zones"]), agent.component)
    for resource in ("subjectaccessreviews", "tokenreviews"):
        with without(installation, "create", resource):
            expect(lambda: agent.component.status("/configz") != 200, agent.component)
            assert agent.component.status("/livez") == 200
        expect(lambda: agent.component.status("/configz") == 200, agent.component)
    with without(installation, "update", "nodemetrics/status"):
        assert agent.says('cannot update resource "nodemetrics/status"'), agent.log
    uninstall(installation, agent)


def uninstall(installation: Installation, agent: Agent) -> None:
    """Update the DaemonSet, which undoes nothing; then delete it, which undoes everything at once."""
    restart = {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}
    patch = ("patch", "daemonset", ACCOUNT, "-n", NAMESPACE, "--type=merge", "--patch", json.dumps(restart))
    installation.plane.kubectl(*patch)
    agent.component.stop()
    assert agent.files.cpus() != "0-7"
    started = agent.log.count("plugins running")
    agent.start(wait=False)
    expect(lambda: agent.log.count("plugins running") > started, agent.component)
    installation.plane.kubectl("delete", "daemonset", ACCOUNT, "-n", NAMESPACE, "--wait=false")
    assert agent.says("was deleted: original values are restored"), agent.log
    assert agent.files.cpus() == "0-7"
    agent.component.stop()
    assert agent.files.cpus() == "0-7"


async def test_evictions_without_their_rights(installation: Installation) -> None:
    account = installation.component(ACCOUNT, {})
    client = Client(Connection.find(str(account.kubeconfig), None, None), attempts=1)
    clock = SystemClock()
    events = Recorder(client, clock=clock)
    writing = asyncio.create_task(events.run())

    async def evict(name: str) -> bool:
        found = decode(Pod, installation.get("pod", name))
        evictor = Evictor(client, events, clock, EvictionMetrics(NODE, clock))
        return await evictor.evict(found, "evicted", "a test")

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.2)

    def notes(name: str) -> str:
        found = installation.get("events.events.k8s.io", "-n", "default") or {"items": []}
        return "".join(event["note"] for event in found["items"] if event["regarding"]["name"] == name)

    def is_evicted(name: str) -> bool:
        return "deletionTimestamp" in installation.get("pod", name)["metadata"]

    try:
        installation.create(pod("refused"), pod("silent"))
        with without(installation, "create", "pods/eviction"):
            assert not await evict("refused")
            await until(lambda: 'cannot create resource "pods/eviction"' in notes("refused"))
            assert not is_evicted("refused")
        async with asyncio.timeout(PATIENCE):
            while not await evict("refused"):
                await asyncio.sleep(0.2)
        assert is_evicted("refused")
        with without(installation, "create", "events"):
            assert await evict("silent")
            assert is_evicted("silent")
    finally:
        writing.cancel()
        await client.close()
