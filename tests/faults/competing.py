"""A cluster in which pods compete: a stock scheduler, replicas of koordpy, and a witness of all that happens.

Everything runs in this process on simulated time, with the same bytes as on the wire: the embedded scheduler
has kube-scheduler's queue, backoff, sampling of nodes and concurrent binds. Calls and writes take time, may
fail or arrive after their sender has given up, replicas are killed, and leaders change.
"""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from koordpy import data, settings
from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.informers import Informers
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.embedded.scheduler import Scheduler
from koordpy.http.routes.extender import endpoints
from koordpy.lib.http1 import ConnectionLost, Response
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.profiles import config as scheduler_config
from koordpy.simulation.inprocess import EndpointCaller, ServerChannel
from koordpy.testing.rebuild import differences, settle
from tests.eventually import PATIENCE
from tests.faults.rebuilt import leftovers, memory, rebuilt
from tests.faults.weather import Weather
from tests.processes import extender_of, serve_process

Document = dict[str, Any]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMESPACE = "default"
WORKLOAD = "test.koordpy/workload"
"""The label with the name of a pod that keeps it when it is created again after an eviction."""

FORGOTTEN = 1500.0
"""Seconds after which nothing of an attempt is kept."""

FAULTS = (
    Fault(status=409),
    Fault(status=500),
    Fault(cut=True),
    Fault(cut=True, after=True),
)


class Line(Weather):
    """What one replica reaches the API server by: requests take up to half a second, and some fail."""

    def __init__(self, server: ApiServer, rng: random.Random) -> None:
        super().__init__(server, lambda *_: None)
        self._rng = rng
        self.failing = 0.0
        """The probability that a binding or a status is not written, or its answer lost."""
        self.is_dead = False

    async def request(self, method: str, path: str, **options: Any) -> Response:
        """Answer one request, or not."""
        if self.is_dead:
            await asyncio.sleep(3.0)
            raise ConnectionLost("nobody answers", answered=False)
        if method != "GET":
            await asyncio.sleep(0.5 * self._rng.random() ** 2)
        return await super().request(method, path, **options)

    def _fault(self, method: str, path: str) -> Fault | None:
        written = method in ("PATCH", "POST") and path.partition("?")[0].endswith(("/binding", "/status"))
        if written and self._rng.random() < self.failing:
            return self._rng.choice(FAULTS)
        return super()._fault(method, path)


class Calls:
    """Calls a replica, which carries a call on after the caller has died; each takes some milliseconds."""

    def __init__(self, origin: str, service: Process, rng: random.Random) -> None:
        self.origin = origin
        self._caller = EndpointCaller(origin, endpoints(extender_of(service)))
        self._rng = rng

    async def request(self, method: str, path: str, **options: Any) -> Response:
        """Have one request answered."""
        await asyncio.sleep(0.01 * self._rng.random())
        return await asyncio.shield(asyncio.ensure_future(self._caller.request(method, path, **options)))

    async def close(self) -> None:
        """Nothing is open."""


class Witness:
    """Sees every change of pods in the order in which they were written.

    `check` is called after each one, with the seconds since the start; what it returns is kept as problems.
    """

    def __init__(self, clock: SimulatedClock) -> None:
        self.cluster = Cluster(clock)
        self._clock = clock
        self.bound: dict[str, Pod] = {}
        """Pods with a node, by UID."""
        self.changed_at = 0.0
        """When a pod was last bound, evicted or deleted."""
        self.binds = 0
        self.evictions: Counter[str] = Counter()
        """Evictions by the `WORKLOAD` of the pods, without what the test deletes."""
        self.mine: set[str] = set()
        """UIDs of pods that the test deletes."""
        self.checks: list[Callable[[float], Iterable[str]]] = []
        self.problems: list[str] = []
        self.on_evicted: Callable[[Pod], None] = lambda _: None
        store = self.cluster.store(Pod)
        store.subscribe(self._added, self._updated, self._deleted)

    def _added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.bound[pod.metadata.uid] = pod
            self._changed()

    def _updated(self, old: Pod, new: Pod) -> None:
        uid = new.metadata.uid
        if new.spec.node_name:
            is_bound_now = uid not in self.bound
            self.bound[uid] = new
            if is_bound_now:
                self.binds += 1
                self._changed()
        if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp and uid not in self.mine:
            self.evictions[new.metadata.labels.get(WORKLOAD, new.metadata.name)] += 1
            self._changed()
            self.on_evicted(new)

    def _deleted(self, pod: Pod) -> None:
        self.bound.pop(pod.metadata.uid, None)
        self._changed()

    def _changed(self) -> None:
        now = self._clock.monotonic()
        self.changed_at = now
        for check in self.checks:
            self.problems += [f"{now:.1f} s: {problem}" for problem in check(now)]


class Competing:
    """One cluster. `profile` are the extender's profiles; `replicas` above one elect a leader."""

    def __init__(
        self, loop: SimulatedLoop, folder: Path, seed: int, profile: Document, *, replicas: int = 1
    ) -> None:
        self.rng = random.Random(seed)
        self.clock = SimulatedClock(loop, START)
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock, rng=random.Random(seed))
        self.client = Client(ServerChannel(self.server), rng=random.Random(seed))
        self._profiles = folder / "profiles.yaml"
        self._profiles.write_text(yaml.safe_dump(profile))
        self.profile = profile
        self._elects = replicas > 1
        self.lines: dict[Process, Line] = {}
        self.replicas = [self._service() for _ in range(replicas)]
        self.service = self.replicas[0]
        """The replica that the scheduler calls."""
        self.scheduler: Scheduler | None = None
        self.witness = Witness(self.clock)
        self._watching = Informers(self.witness.cluster, Client(ServerChannel(self.server)))
        self._ending: set[asyncio.Future[Any]] = set()
        self._kubelet: asyncio.Task[None] | None = None
        self._names = 0

    def _service(self) -> Process:
        extender = {"port": 0, "schedulerConfig": str(self._profiles), "leaderElect": self._elects}
        found = settings.load(None, {"parts": ["extender"], "extender": extender, "shutdownDelay": 0})
        seed = self.rng.random()
        line = Line(self.server, random.Random(seed))
        made = serve_process(found, listens=False, connection=line, clock=self.clock, rng=random.Random(seed))
        self.lines[made] = line
        return made

    # --- who schedules ---------------------------------------------------------------------------

    async def start(self, nodes: Mapping[str, Mapping[str, str]]) -> None:
        """Create nodes with these amounts of resources and start everything."""
        await self.server.load()
        for namespace in ("koordinator-system", "kube-system"):
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with suppress(AlreadyExists):
                await self.client.create_raw(resource_of(Namespace), "", document)
        for name, amounts in nodes.items():
            await self.add_node(name, amounts)
        await self._watching.start()
        await self._watching.wait_synced(PATIENCE)
        self._kubelet = asyncio.create_task(self._end_pods())
        for service in self.replicas:
            await service.start()
        await self.schedule()

    async def stop(self) -> None:
        """Stop everything."""
        await asyncio.gather(*self._ending, return_exceptions=True)
        if self._kubelet is not None:
            self._kubelet.cancel()
        await self._kill_scheduler()
        await asyncio.gather(*(service.stop() for service in self.replicas))
        await self._watching.stop()

    async def schedule(self) -> None:
        """Start a scheduler that calls `service`, after killing the one that runs."""
        await self._kill_scheduler()
        document = yaml.safe_load(data.deploy("scheduler", "kube-scheduler-config.yaml").read_text())
        service, rng = self.service, random.Random(self.rng.random())
        self.scheduler = Scheduler(
            scheduler_config.read(document),
            self.client,
            clock=self.clock,
            rng=random.Random(self.rng.random()),
            connect=lambda origin: Calls(origin, service, rng),
        )
        await self.scheduler.start()

    async def _kill_scheduler(self) -> None:
        if self.scheduler is not None:
            await self.scheduler.stop()
            self.scheduler = None

    async def kill(self) -> None:
        """Kill a replica; where it is the one that is called, kube-scheduler calls another or a new one."""
        dead = self.rng.choice(self.replicas)
        self.lines[dead].is_dead = True
        ending = asyncio.ensure_future(dead.stop())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        fresh = self._service()
        self.lines[fresh].failing = self.lines.pop(dead).failing
        self.replicas[self.replicas.index(dead)] = fresh
        await asyncio.sleep(3 * self.rng.random())
        await fresh.start()
        if dead is self.service:
            self.service = self.rng.choice(self.replicas)
            await self.schedule()

    async def fail_over(self) -> None:
        """Start another kube-scheduler, which calls another replica if there is one."""
        self.service = self.rng.choice(self.replicas)
        await self.schedule()

    def fail(self, probability: float) -> None:
        """Make writes of bindings and statuses fail from now on."""
        for line in self.lines.values():
            line.failing = probability

    # --- the cluster -----------------------------------------------------------------------------

    async def add_node(self, name: str, amounts: Mapping[str, str]) -> None:
        """Create a node, unless there is one of that name."""
        status = {"capacity": dict(amounts), "allocatable": dict(amounts)}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        with suppress(AlreadyExists):
            await self.client.create_raw(
                resource_of(Node),
                "",
                {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status},
            )

    async def remove_node(self, name: str) -> None:
        """Delete a node, and what runs there, as the garbage collector does."""
        with suppress(NotFound):
            await self.client.delete(Node, "", name)
        await asyncio.sleep(2.0)
        for pod in await self.pods():
            if pod.spec.node_name == name:
                await self.remove(pod)

    async def create(self, type_: type[KubeObject], name: str, spec: Document, **meta: Any) -> None:
        """Create an object of a namespace."""
        await create(self.client, type_, NAMESPACE, name, spec, **meta)

    async def add_pod(self, document: Document) -> None:
        """Create a pod."""
        await self.client.create_raw(resource_of(Pod), NAMESPACE, document)

    async def remove(self, pod: Pod) -> None:
        """Delete a pod, as a user does."""
        self.witness.mine.add(pod.metadata.uid)
        with suppress(NotFound):
            await self.client.delete(Pod, NAMESPACE, pod.metadata.name, grace_period_seconds=0)

    async def pods(self) -> list[Pod]:
        """Return all pods."""
        return list(await self.client.list_all(Pod, NAMESPACE))

    async def _end_pods(self) -> None:
        """Do what kubelets do for pods that are being deleted: end them after a second or two."""
        while True:
            await asyncio.sleep(1.0)
            for pod in await self.pods():
                if pod.metadata.deletion_timestamp:
                    with suppress(NotFound):
                        await self.client.delete(Pod, NAMESPACE, pod.metadata.name, grace_period_seconds=0)

    def name(self, kind: str) -> str:
        """Return a new name."""
        self._names += 1
        return f"{kind}{self._names}"

    async def pause(self) -> None:
        """Let up to three seconds pass."""
        await asyncio.sleep(3 * self.rng.random() ** 3)

    async def settle(self, quiet: float, limit: float) -> None:
        """Wait until no pod was bound, evicted or deleted for `quiet` seconds.

        That must be the case within `limit` seconds: a contest that goes on and on fails here.
        """
        deadline = self.clock.monotonic() + limit
        self.witness.changed_at = max(self.witness.changed_at, self.clock.monotonic())
        while self.clock.monotonic() < self.witness.changed_at + quiet:
            assert self.clock.monotonic() < deadline, (
                f"pods are still being bound or evicted after {limit:g} seconds; "
                f"evictions: {self.witness.evictions.most_common(5)}"
            )
            await asyncio.sleep(5.0)

    # --- what must hold --------------------------------------------------------------------------

    async def assert_no_node_is_over_committed(self) -> None:
        """Compare the CPUs of nodes with what their pods request."""
        left = await self.free()
        assert all(cpu >= 0 for cpu in left.values()), left

    async def assert_memory_equals_a_rebuild(self) -> None:
        """Compare the state of each replica with that of a new process, and look for what is left over."""
        probe = pod_document("probe", "1")
        probe["metadata"] |= {"uid": "uid-of-probe", "namespace": NAMESPACE}
        body = json.dumps({"Pod": probe, "NodeNames": []}).encode()
        for service in self.replicas:
            extender = extender_of(service)
            extender.filter(body)  # each call clears away what has expired
            left = leftovers(extender)
            assert left == [], left
            expected = await rebuilt(self.profile, self.client, self.clock)
            settle(extender.handle.cluster)
            found = differences(memory(extender), expected)
            assert found == [], found

    async def assert_nothing_is_left(self) -> None:
        """Delete all pods; koordpy remembers none of them."""
        for pod in await self.pods():
            await self.remove(pod)
        await asyncio.sleep(FORGOTTEN)
        await self.assert_memory_equals_a_rebuild()

    async def free(self) -> dict[str, int]:
        """Return the free CPUs of nodes in thousandths."""
        left = {
            node.metadata.name: milli(node.status.allocatable["cpu"])
            for node in await self.client.list_all(Node)
        }
        for pod in await self.pods():
            if pod.spec.node_name in left:
                left[pod.spec.node_name] -= cpus(pod)
        return left

    def by_label(self, label: str) -> dict[str, int]:
        """Return the CPUs of all bound pods in thousandths, by the value of a label."""
        used: dict[str, int] = defaultdict(int)
        for pod in self.witness.bound.values():
            if label in pod.metadata.labels:
                used[pod.metadata.labels[label]] += cpus(pod)
        return used


async def take_turns(
    rng: random.Random, steps: int, choices: Iterable[tuple[Callable[[], Awaitable[None]], int]]
) -> None:
    """Do something at random, `steps` times, with pauses of up to three seconds."""
    actions, weights = zip(*choices, strict=True)
    for _ in range(steps):
        [act] = rng.choices(actions, weights)
        await act()
        await asyncio.sleep(3 * rng.random() ** 3)


def profile(**args: Document) -> Document:
    """Return a scheduler configuration with plugins and their arguments, by name, and NodeResourcesFit."""
    plugins = {
        "multiPoint": {"enabled": [{"name": name} for name in args]},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}]},
    }
    config = [{"name": name, "args": given} for name, given in args.items()]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": config}],
    }


async def create(
    client: Client, type_: type[KubeObject], namespace: str, name: str, spec: Document, **meta: Any
) -> None:
    """Create an object."""
    resource = resource_of(type_)
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **meta},
        "spec": spec,
    }
    await client.create_raw(resource, namespace, document)


def pod_document(
    name: str,
    cpu: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority_class: str = "",
) -> Document:
    """Return a pod that requests CPU."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"containers": [container], "priorityClassName": priority_class},
    }


def cpus(pod: Pod) -> int:
    """Return the CPUs that a pod requests, in thousandths."""
    return sum(milli(container.resources.requests.get("cpu", "0")) for container in pod.spec.containers)


def milli(amount: Any) -> int:
    """Return an amount of CPU in thousandths."""
    text = str(amount)
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)
