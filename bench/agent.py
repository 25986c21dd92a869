"""What the node agent costs: `koordpy agent` in a cgroup of its own, on a node with 100 and with 250 pods.

The agent is the real process with all default gates, against the embedded API server. Its node has a NodeSLO
whose strategies are enabled, and a tree of cgroups in which every pod and container has its groups: real ones
where this machine lets some be made, else a folder that looks like them; the labels say which. CPU time and
memory are the kernel's account of the agent's own group, or of the process where there are no real groups.

It is set up as the DaemonSet is: it keeps its metrics, models, changes and audit log in folders, serves its
endpoints with a generated certificate, and is probed as by kubelet, with a connection for every probe.

`KOORDPY_AGENT_SPAN` is the number of seconds that are measured after a settling time, 300 by default.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import httpx

from bench.report import Result
from koordpy.agent.cgroups.table import Version
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver import ApiServer
from tests.cgroups.tree import CgroupTree
from tests.e2e.controlplane.process import free_port
from tests.integration.service.stage import CRDS

SPAN: Final = float(os.environ.get("KOORDPY_AGENT_SPAN", "300"))
SETTLING: Final = min(30.0, SPAN)
PODS: Final = (100, 250)
PROBE_SECONDS: Final = 10.0
ROOT: Final = Path(__file__).parents[1]
NODE: Final = "bench-node"
GROUP: Final = "koordpy-agent"
_KEPT: Final = ("audit-log-dir", "changes-dir", "prediction-checkpoint-filepath", "tsdb-path")
"""Flags with a folder in which the agent keeps something."""

_START_SECONDS: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def run(rounds: int = 1) -> Result:
    """Measure both numbers of pods."""
    _compile()
    result = Result.begin("agent", cpu="CPU, % of a core", rss="RSS, MiB", peak="peak of its cgroup, MiB")
    for _ in range(rounds):
        for pods in PODS:
            asyncio.run(_measure(result, pods))
    return result


async def _measure(result: Result, pods: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = CgroupTree(Path(folder), Version.V1, frozenset({"cpuacct", "memory"}))
        try:
            async with ApiServer(crds=CRDS) as server:
                client = Client(Connection.to(Access(server.url)))
                try:
                    await _fill(client, tree, pods)
                    values = await _run_agent(server.url, tree, Path(folder))
                finally:
                    await client.close()
        finally:
            tree.close()
    groups = "real cgroups v1" if tree.real else "a folder that looks like cgroups v1"
    goal = "goal: 0.5 %, 60 MiB" if pods == 100 else "goal: 1 %, 90 MiB"
    label = f"{pods} pods, {SPAN:.0f} s, {groups}"
    result.row(label, compare=goal).add(**values)


async def _fill(client: Client, tree: CgroupTree, pods: int) -> None:
    """Create the node with its policy and pods: a third of each QoS class, two containers each."""
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    await _create(client, resource_of(Node), {"metadata": {"name": NODE}}, {"allocatable": capacity})
    spec = {
        "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 65},
        "resourceQOSStrategy": {
            name: {"memoryQOS": {"enable": True}, "cpuQOS": {"enable": True}}
            for name in ("lsrClass", "lsClass", "beClass")
        },
        "cpuBurstStrategy": {"policy": "auto"},
    }
    await _create(client, resource_of(NodeSLO), {"metadata": {"name": NODE}, "spec": spec})
    for number in range(pods):
        pod, status = _pod(number)
        created = await _create(client, resource_of(Pod), pod, status)
        parent = {"BE": "kubepods/besteffort", "LS": "kubepods/burstable"}.get(_qos(number), "kubepods")
        directory = f"{parent}/pod{created['metadata']['uid']}"
        for group in (directory, *(f"{directory}/c{number}-{each}" for each in ("sandbox", "main", "side"))):
            tree.make(group)


async def _create(client: Client, resource: Any, document: dict[str, Any], status: Any = None) -> Any:
    meta = document["metadata"]
    namespace = meta.get("namespace", "")
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
    created = await client.create_raw(resource, namespace, whole)
    if status is not None:
        await client.patch_status(resource.type, namespace, meta["name"], {"status": status})
    return created


def _qos(number: int) -> str:
    return ("BE", "LS", "LSR")[number % 3]


def _pod(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pod with its status."""
    qos = _qos(number)
    amounts = {"cpu": "500m", "memory": "1Gi"}
    batch = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
    resources = {
        "BE": {"requests": batch, "limits": batch},
        "LS": {"requests": amounts},
        "LSR": {"requests": amounts, "limits": amounts},
    }[qos]
    names = ("main", "side")
    pod = {
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "labels": {"koordinator.sh/qosClass": qos, "app": f"app-{number % 20}"},
            "annotations": {"example.com/owner": "somebody", "example.com/note": "x" * 200},
        },
        "spec": {
            "nodeName": NODE,
            "containers": [
                {
                    "name": name,
                    "image": "registry.example.com/team/app:v1",
                    "resources": resources,
                    "env": [{"name": f"VARIABLE_{i}", "value": "value"} for i in range(10)],
                }
                for name in names
            ],
        },
    }
    statuses = [
        {
            "name": name,
            "containerID": f"containerd://c{number}-{name}",
            "ready": True,
            "image": "i",
            "imageID": "i",
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        for name in names
    ]
    kube = {"BE": "BestEffort", "LS": "Burstable", "LSR": "Guaranteed"}[qos]
    return pod, {"phase": "Running", "qosClass": kube, "containerStatuses": statuses}


async def _run_agent(server: str, tree: CgroupTree, folder: Path) -> dict[str, float]:
    """Run the agent, wait until it is ready and has settled, and measure it."""
    port = free_port()
    config = folder / "koordpy.yaml"
    config.write_text(
        f"client: {{server: '{server}'}}\n"
        f"debug: {{port: {port}, authentication: true, certDir: '{folder / 'certs'}'}}\n"
        f"agent:\n  nodeName: {NODE}\n  cgroupRoot: '{tree.root}'\n{_flags(folder)}"
    )
    program = Path(sys.executable).with_name("koordpy")
    agent = _start(program, config, folder / "log")
    try:
        tree.make(GROUP)
        tree.attach(GROUP, agent.pid)
        await _ready(agent, port, folder / "log")
        await asyncio.sleep(SETTLING)
        before, began = _cpu_seconds(tree, agent.pid), time.monotonic()
        await _probe(port, SPAN)
        used, taken = _cpu_seconds(tree, agent.pid) - before, time.monotonic() - began
        return {"cpu": 100 * used / taken, "rss": _rss(agent.pid), "peak": _peak(tree, agent.pid)}
    finally:
        agent.terminate()
        await asyncio.to_thread(agent.wait, 60)


def _start(program: Path, config: Path, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        return subprocess.Popen(
            [program, "agent", "--config", config], stdout=file, stderr=file, env=_environment()
        )


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _compile() -> None:
    """Compile the sources, as an installation does: compiling at the start would take memory."""
    folders = [ROOT / "app", ROOT / "plugins"]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], env=_environment(), check=True)


def _end_of(log: Path) -> str:
    return log.read_text()[-2000:]


def _flags(folder: Path) -> str:
    """Return flags with folders for what the agent keeps: not on this machine's usual paths."""
    lines = ["  flags:"]
    for name in _KEPT:
        (folder / name).mkdir()
        lines.append(f"    {name}: '{folder / name}'")
    return "\n".join([*lines, ""])


async def _probe(port: int, seconds: float) -> None:
    """Probe readiness and liveness for a time, as often as the DaemonSet says."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for path in ("readyz", "livez"):
            async with httpx.AsyncClient(verify=False) as http:
                await http.get(f"https://127.0.0.1:{port}/{path}")
        await asyncio.sleep(min(PROBE_SECONDS, left))


async def _ready(agent: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    text = "no answer"
    end = time.monotonic() + _START_SECONDS
    async with httpx.AsyncClient(verify=False) as http:
        while time.monotonic() < end:
            if agent.poll() is not None:
                raise RuntimeError(f"the agent ended: {_end_of(log)}")
            try:
                answer = await http.get(f"https://127.0.0.1:{port}/readyz?verbose")
                if answer.status_code == 200:
                    return
                text = answer.text
            except httpx.TransportError:
                pass
            await asyncio.sleep(1)
    raise TimeoutError(f"the agent is not ready: {text}\n{_end_of(log)}")


def _cpu_seconds(tree: CgroupTree, pid: int) -> float:
    """Return the CPU time of the agent's group, or of the process where there are no real groups."""
    if tree.real:
        return int((tree.root / "cpuacct" / GROUP / "cpuacct.usage").read_text()) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rss(pid: int) -> float:
    return _status(pid, "VmRSS")


def _peak(tree: CgroupTree, pid: int) -> float:
    """Return the most memory that the group had, page cache included; of the process without real groups."""
    if tree.real:
        return int((tree.root / "memory" / GROUP / "memory.max_usage_in_bytes").read_text()) / 2**20
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) / 1024
    raise LookupError(name)
