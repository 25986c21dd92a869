"""Pods bound per second by a real control plane: kube-scheduler alone, and with koordpy as its extender.

etcd, kube-apiserver, kube-scheduler and koordpy share the machine with the client. In every run pods wait
before the scheduler starts; what counts is the time from the first binding to the last, as a watch sees
them. The contenders take turns within each round, because runs differ by a third from one another: only the
ratio within a round means something.
"""

import asyncio
import contextlib
import enum
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench import machine, objects, servers
from bench.extender import FULL_CHAIN
from bench.report import Result
from bench.waiting_pods import Kind
from koordpy import data
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.scheduling.interface.gates import OPPORTUNISTIC_BATCHING
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process

SIZES, PODS = (1_000, 5_000), 2_000
NAMESPACE = "default"

RESERVATIONS = 1_000

GOAL = "0.50 at least; koord-scheduler reaches 0.38 of kube-scheduler"

ALONE_ELSEWHERE = "on a quiet machine 500/s (450 to 585), and koord-scheduler 190/s (84 to 226)"
"""Taken with the same nodes and pods on a machine of the same kind."""

_AT_ONCE = 32
_PATIENCE = 120.0

Document = dict[str, Any]


class Who(enum.Enum):
    """What kube-scheduler works with."""

    ALONE = "kube-scheduler alone"
    CHOOSING = "with koordpy, which chooses the node: filter, bind"
    FULL = "the same with the full chain among 1,000 Reservations"
    UNLIKE = "the same, and every pod filtered alone, as if no two were the same"
    SCORING = "with koordpy, kube-scheduler chooses: filter, prioritize, bind"
    LIGHT = "with koordpy in light mode, which chooses the node: filter"
    BARE = "floor: with an extender that does nothing: filter, prioritize"


def run(rounds: int = 3, sizes: Sequence[int] = SIZES, pods: int = PODS) -> Result:
    """Measure; the first run also warms the API server up."""
    result = Result.begin(
        "controlplane",
        rate="pods/s",
        ratio="ratio to alone",
        koordpy="extender CPU a pod, ms",
        scheduler="kube-scheduler CPU a pod, ms",
        api="kube-apiserver and etcd CPU a pod, ms",
        others="cores that others used",
    )
    with servers.folder() as folder, ControlPlane(throughput=True) as plane:
        plane.install_crds()
        bench = Bench(plane, folder, pods)
        for size in sizes:
            asyncio.run(bench.grow_to(size))
            if size == sizes[0]:
                asyncio.run(bench.reserve(RESERVATIONS))
            bench.measure(Who.ALONE)
            for _ in range(rounds):
                alone = 0.0
                for who in Who:
                    found = bench.measure(who)
                    if who is Who.ALONE:
                        alone = found["rate"]
                    row = result.row(f"{size:,} nodes: {who.value}", _compare(who, size))
                    row.add(**found, ratio=found["rate"] / alone)
    result.notes.append(
        f"{pods:,} waiting pods of 100m and 200Mi, all the same: where koordpy chooses the node, one pass "
        "over the nodes serves many of them, unless said otherwise. Alone, kube-scheduler has its defaults."
    )
    return result


def _compare(who: Who, size: int) -> str:
    if who in (Who.CHOOSING, Who.FULL):
        return GOAL
    return ALONE_ELSEWHERE if who is Who.ALONE and size == SIZES[0] else ""


class Bench:
    """A control plane with nodes, on which contenders bind pods."""

    profiles = FULL_CHAIN
    """The profiles of koordpy, where a contender does not run those that are shipped."""

    def __init__(self, plane: ControlPlane, folder: Path, pods: int) -> None:
        self.plane, self._folder, self._nodes, self._pods = plane, folder, 0, pods
        self._kind = Kind.SAME

    def waiting_pod(self, i: int) -> Document:
        """Return the i-th pod that a contender binds."""
        return self._kind.pod(i, NAMESPACE)

    async def turn_to(self, kind: Kind) -> None:
        """Have pods of another kind wait from now on; what selects them is there, and nothing else."""
        async with self.client() as client:
            for old, document in self._kind.owners():
                await client.delete(old, NAMESPACE, document["metadata"]["name"])
            owners = [(resource_of(type_), document) for type_, document in kind.owners()]
            await all_of(client.create_raw(resource, NAMESPACE, document) for resource, document in owners)
        self._kind = kind

    async def grow_to(self, nodes: int) -> None:
        """Create nodes and their NodeMetrics, beside those that there are."""
        new, self._nodes = range(self._nodes, nodes), nodes
        async with self.client() as client:
            await all_of(client.create_raw(resource_of(Node), "", objects.node(i)) for i in new)
            metrics = resource_of(NodeMetric)
            await all_of(client.create_raw(metrics, "", objects.node_metric(i)) for i in new)

    async def reserve(self, reservations: int) -> None:
        """Create Reservations that hold room on the nodes; none of them is for the pods."""
        async with self.client() as client:
            kind = resource_of(Reservation)
            documents = [objects.reservation(i, self._nodes) for i in range(reservations)]
            await all_of(client.create_raw(kind, "", document) for document in documents)
            await all_of(
                client.patch_raw(
                    kind,
                    "",
                    document["metadata"]["name"],
                    {"status": document["status"]},
                    subresource="status",
                )
                for document in documents
            )

    def measure(self, who: Who) -> dict[str, float]:
        """Let a contender bind all pods; return what it took."""
        asyncio.run(self.prepare())
        with contextlib.ExitStack() as stack:
            bind = f"127.0.0.1:{servers.free_port()}"
            config = scheduler_config(bind, who)
            ours: Process | None = None
            if who is not Who.ALONE:
                ours = stack.enter_context(self._bare(bind) if who is Who.BARE else self.koordpy(bind, who))
            watch = stack.enter_context(BindWatch(self.plane.kubeconfig, self._pods))
            assert self.plane.api_server is not None
            assert self.plane.etcd is not None
            servers_of_state = [self.plane.api_server, self.plane.etcd]
            state_cpu, our_cpu = _cpu(servers_of_state), _cpu([ours])
            began, busy, own = time.monotonic(), machine.busy_seconds(), self._own_cpu(watch)
            scheduler = self.plane.start_scheduler(config)
            stack.callback(self.plane.stop_scheduler)
            seconds = watch.wait()
            used = {
                "scheduler": _cpu([scheduler]),
                "api": _cpu(servers_of_state) - state_cpu,
                "koordpy": _cpu([ours]) - our_cpu,
            }
            others = machine.busy_seconds() - busy - sum(used.values()) - (self._own_cpu(watch) - own)
            return {
                "rate": (self._pods - 1) / seconds,
                "others": max(others, 0.0) / (time.monotonic() - began),
                **{name: cpu / self._pods * 1e3 for name, cpu in used.items() if cpu},
            }

    @staticmethod
    def _own_cpu(watch: "BindWatch") -> float:
        return machine.cpu_seconds(os.getpid()) + machine.cpu_seconds(watch.pid)

    async def prepare(self) -> None:
        """Remove the pods of the run before, create new ones, let every node report."""
        async with self.client() as client:
            await client.send(
                "DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0", timeout=120
            )
            while (await client.list_page(Pod, NAMESPACE, limit=1)).items:
                await asyncio.sleep(0.2)
            metrics = resource_of(NodeMetric)
            await all_of(
                client.patch_raw(
                    metrics,
                    "",
                    objects.node_name(i),
                    {"status": objects.node_metric_status(i)},
                    subresource="status",
                )
                for i in range(self._nodes)
            )
            await all_of(
                client.create_raw(resource_of(Pod), NAMESPACE, self.waiting_pod(i)) for i in range(self._pods)
            )

    @contextlib.asynccontextmanager
    async def client(self) -> Any:
        """Give a client of an administrator."""
        client = Client(Connection.from_kubeconfig(str(self.plane.kubeconfig)))
        try:
            yield client
        finally:
            await client.close()

    def koordpy(self, bind: str, who: Who) -> contextlib.AbstractContextManager[Process]:
        """Run koordpy."""
        host, _, port = bind.rpartition(":")
        settings = {
            "apiVersion": "config.koordpy.dev/v1alpha1",
            "kind": "KoordpyConfiguration",
            "parts": ["extender"],
            "client": {"kubeconfig": str(self.plane.kubeconfig)},
            "extender": {
                "bindAddress": host,
                "port": int(port),
                "mode": "light" if who is Who.LIGHT else "full",
                "nodeChoice": "kube-scheduler" if who is Who.SCORING else "koordpy",
                "lease": {"namespace": "kube-system"},  # which is there
                **({"schedulerConfig": str(self.profiles)} if who in (Who.FULL, Who.UNLIKE) else {}),
            },
            "featureGates": {OPPORTUNISTIC_BATCHING: who is not Who.UNLIKE},
        }
        file = self._folder / "koordpy.yaml"
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = servers.koordpy("serve", "--config", str(file))
        return servers.running("koordpy", command, f"http://{bind}/readyz", self._folder)

    def _bare(self, bind: str) -> contextlib.AbstractContextManager[Process]:
        command = servers.module("bare_extender", bind.rpartition(":")[2])
        return servers.running("bare-extender", command, f"http://{bind}/", self._folder)


class BindWatch:
    """A process that sees pods get nodes (`bench.bindings`)."""

    def __init__(self, kubeconfig: Path, pods: int) -> None:
        command = servers.module("bindings", str(kubeconfig), NAMESPACE, str(pods), str(_PATIENCE))
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._line("watching")

    def wait(self) -> float:
        """Return the seconds between the first and the last binding."""
        return float(self._line("seconds"))

    @property
    def pid(self) -> int:
        """The process id, for measurements."""
        return self._process.pid

    def _line(self, awaited: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench.bindings ended with {self._process.wait()} before telling {awaited!r}")
        return line.strip()

    def __enter__(self) -> "BindWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def scheduler_config(bind: str, who: Who) -> Document:
    """Return the configuration that users get, with this run's address; alone, kube-scheduler's defaults."""
    light = who in (Who.LIGHT, Who.BARE)
    name = "kube-scheduler-config-light.yaml" if light else "kube-scheduler-config.yaml"
    text = data.deploy("scheduler", name).read_text(encoding="utf-8")
    config: Document = yaml.safe_load(text.replace("127.0.0.1:9877", bind))
    if who is Who.ALONE:
        config["profiles"] = [{"schedulerName": "default-scheduler"}]
        del config["extenders"]
    return config


def _cpu(processes: list[Process] | list[Process | None]) -> float:
    return sum(machine.cpu_seconds(process.pid) for process in processes if process is not None)


async def all_of(requests: Iterator[Any]) -> None:
    """Await many requests, some at a time."""

    async def worker() -> None:
        for request in requests:
            await request

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
