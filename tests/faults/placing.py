"""The four components that place pods, each with plugins whose allocations a test can count.

All run on the same API server and simulated time, except `koordpy.testing`, which has a cluster in memory.
Their plugins fail as a `Plan` says, in every attempt, until the plans are dropped.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from koordpy import data
from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.reserve_pod import is_reserve_pod, reservation_name_of
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import NotFound
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.embedded.scheduler import Scheduler
from koordpy.lib.feature_gates import FeatureGates
from koordpy.lib.simulated_time import SimulatedClock
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.queue import IN_FLIGHT, SchedulingQueue
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import (
    Bind,
    Binding,
    Filter,
    Permit,
    Plugin,
    PostBind,
    PreBind,
    ReservationNominator,
    ReservationPreBind,
    Reserve,
    ResizePod,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import RESIZE_POD, scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import Place, build, installed
from koordpy.scheduling.reservations.scheduler import ReservationScheduler
from koordpy.scheduling.toolkit.reservation_writes import write_status
from koordpy.simulation.inprocess import ServerChannel
from koordpy.testing.cluster import cluster as described
from koordpy.testing.scheduling import Scheduling
from tests.eventually import PATIENCE
from tests.faults.weather import Weather
from tests.unit.scheduling.worlds import configuration, filter_body
from tests.unit.scheduling.worlds import node as node_object

Document = dict[str, Any]

NODES = ("n0", "n1")
LABEL = "test.koordpy/placed"
WAITS = 10.0
"""The longest wait in Permit in seconds."""
BUSY = 20.0
"""Seconds for which a hanging plugin blocks in PreBind."""


@dataclass(frozen=True)
class Plan:
    """A planned failure of a pod: `how` a plugin answers at a point."""

    plugin: str = ""
    point: str = ""
    how: str = ""
    waits: bool = False
    """Whether it also waits in Permit."""
    labels: bool = False
    """Whether it gets a label."""


class Taker(Plugin, ResizePod, Reserve, Permit, PreBind, ReservationPreBind, PostBind):
    """Allocates something for each pod, and follows bound pods as a plugin should."""

    plans: ClassVar[dict[str, Plan]] = {}

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.held: dict[str, str] = {}
        """Nodes by UID of pods and Reservations that are placed, or being placed."""
        self.resized: set[str] = set()
        self.bound: list[str] = []
        handle.on(Pod, self._seen, lambda _, new: self._seen(new), lambda pod: self._gone(pod.metadata.uid))
        handle.on(
            Reservation,
            self._reserved,
            lambda _, new: self._reserved(new),
            lambda reservation: self._gone(reservation.metadata.uid),
        )

    def _seen(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.held[pod.metadata.uid] = pod.spec.node_name

    def _reserved(self, reservation: Reservation) -> None:
        if reservation.is_available:
            self.held[reservation.metadata.uid] = reservation.node_name

    def _gone(self, uid: str) -> None:
        self.held.pop(uid, None)

    def _plan(self, pod: Pod) -> Plan:
        return self.plans.get(key_of(pod), Plan())

    def _answer(self, point: str, pod: Pod) -> Status:
        plan = self._plan(pod)
        if (plan.plugin, plan.point) != (self.name, point):
            return SUCCESS
        if plan.how == "raises":
            raise RuntimeError("as planned")
        return Status.unschedulable("as planned") if plan.how == "rejects" else Status.failed("as planned")

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        assert pod.metadata.uid not in self.held, "resized while it is held"
        self.resized.add(pod.metadata.uid)
        return msgspec.structs.replace(pod), self._answer("resize", pod)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        uid = pod.metadata.uid
        assert uid not in self.held, f"{uid} is reserved twice"
        self.resized.discard(uid)
        self.held[uid] = node_name
        return self._answer("reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.resized.discard(pod.metadata.uid)
        self.held.pop(pod.metadata.uid, None)
        self._answer("unreserve", pod)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        status = self._answer("permit", pod)
        return Status.wait(WAITS) if status.is_success and self._plan(pod).waits else status

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        plan = self._plan(pod)
        if plan.labels:
            binding.labels[LABEL] = "yes"
        if (plan.plugin, plan.point, plan.how) == (self.name, "pre_bind", "hangs"):
            await asyncio.sleep(BUSY)
            return SUCCESS
        return self._answer("pre_bind", pod)

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        return await self.pre_bind(state, binding.pod, node_name, binding)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.bound.append(pod.metadata.uid)


class First(Taker, Filter, Bind, ReservationNominator):
    """A plugin with the name that a profile needs to place Reservations."""

    name = "Reservation"
    is_closed: ClassVar[bool] = False
    """Whether no pod fits anywhere, so that no attempt starts."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.nominated: set[str] = set()

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("closed") if self.is_closed else SUCCESS

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        self.nominated.add(pod.metadata.uid)
        return None, self._answer("nominate", pod)

    def delete_nominated_reservation(self, pod: Pod) -> None:
        self.nominated.discard(pod.metadata.uid)

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        status = self._answer("bind", pod)
        if not status.is_success or not is_reserve_pod(pod):
            return Status.skip() if status.is_success else status
        client, clock = self.handle.client, self.handle.clock
        reservation = self.handle.cluster.store(Reservation).by_key(reservation_name_of(pod))
        assert client is not None
        assert reservation is not None
        try:
            await write_status(
                client,
                reservation,
                lambda current: set_available(current, binding.node_name, clock.now()),
                rng=self.handle.rng,
            )
        except Exception as error:
            return Status.failed(error)
        return SUCCESS


class Second(Taker):
    """Another one."""

    name = "Second"


CLASSES: Mapping[str, type[Plugin]] = {"Reservation": First, "Second": Second}


def key_of(pod: Pod) -> str:
    """Return the name of a pod in the test, or of its Reservation."""
    return reservation_name_of(pod) if is_reserve_pod(pod) else pod.metadata.name


def gates() -> FeatureGates:
    """Return the gates, with ResizePod."""
    made = scheduling_gates()
    made.set({RESIZE_POD: True})
    return made


class Placing(ABC):
    """A component that places pods or Reservations, by name."""

    frameworks: list[Framework]
    cluster: Cluster

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.server = ApiServer(crds=[data.deploy("crds")], clock=clock, rng=random.Random(1))
        self.weather = Weather(self.server, lambda method, path, body: None)
        self.theirs = Client(self.weather, rng=random.Random(1))
        """The client of the tested component; writes through it may fail."""
        self.client = Client(ServerChannel(self.server), rng=random.Random(1))
        self.known: dict[str, Document] = {}

    def fail_writes(self, faults: Sequence[Fault]) -> None:
        """Make the next writes of bindings and failure conditions fail."""
        for fault in faults:
            self.weather.troubles += [("POST", "/binding", fault), ("PATCH", "/status", fault)]

    async def start(self) -> None:
        """Create the nodes and start."""
        await self.server.load()
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        status = {"capacity": allocatable, "allocatable": allocatable}
        for name in NODES:
            document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
            await self.client.create_raw(resource_of(Node), "", document)

    @abstractmethod
    async def stop(self) -> None:
        """End."""

    async def add(self, name: str) -> None:
        """Create a pod to be placed."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container]},
        }
        self.known[name] = await self.client.create_raw(resource_of(Pod), "default", document)

    async def attempt(self, name: str) -> None:
        """Start an attempt, unless a queue does."""

    async def interrupt(self, what: str, name: str) -> None:
        """Let another event interleave."""
        waiting = self.handle.waiting_pods.get(self.uid(name))
        if what == "delete":
            with suppress(NotFound):
                await self.delete(name)
        elif what == "cancel":
            await self.cancel(name)
        elif waiting is not None and what == "reject":
            waiting.reject("Second", "rejected")
        elif waiting is not None and what == "allow":
            for plugin in list(waiting.pending_plugins):
                waiting.allow(plugin)

    async def delete(self, name: str) -> None:
        """Delete a pod."""
        await self.client.delete(Pod, "default", name, grace_period_seconds=0)

    @abstractmethod
    async def cancel(self, name: str) -> None:
        """Cancel an attempt, or all attempts in progress."""

    async def live(self) -> dict[str, tuple[str, Mapping[str, str]]]:
        """Return node and labels of all objects, by UID."""
        pods = await self.client.list_all(Pod)
        return {pod.metadata.uid: (pod.spec.node_name, pod.metadata.labels) for pod in pods}

    @property
    def handle(self) -> Handle:
        return self.frameworks[0].handle

    def uid(self, name: str) -> str:
        """Return the UID of a pod."""
        return str(self.known[name]["metadata"]["uid"])

    def leftovers(self, live: Mapping[str, tuple[str, Mapping[str, str]]]) -> list[str]:
        """Return state left over from unbound pods, and state missing for bound ones."""
        placed = {uid: node for uid, (node, _) in live.items() if node}
        found = []
        plugins = [plugin for framework in self.frameworks for plugin in framework.plugins]
        for plugin in plugins:
            if isinstance(plugin, Taker):
                if plugin.held != placed:
                    found.append(f"{plugin.name} holds {plugin.held}, placed are {placed}")
                if plugin.resized:
                    found.append(f"{plugin.name} has resized {plugin.resized}")
            if isinstance(plugin, First) and plugin.nominated:
                found.append(f"nominated to reservations: {plugin.nominated}")
        table = self.cluster.nodes
        found += [f"{uid} is assumed" for uid in live if table.is_assumed(uid)]
        for name in NODES:
            row = table.row_of(name)
            pods = [] if row is None else [pod.metadata.uid for pod in table.pods_on(row)]
            found += [f"{uid} is on {name}" for uid in pods if placed.get(uid) != name]
        found += [f"{waiting.pod.metadata.uid} waits" for waiting in self.handle.waiting_pods]
        if self.handle.nominator:
            found.append(f"nominated to {self.handle.nominator.node_names}")
        return found


class Extending(Placing):
    """The extender: filter, then bind, as kube-scheduler calls them."""

    async def start(self) -> None:
        await super().start()
        self.cluster = Cluster(self.clock)
        base = Handle(self.cluster, client=self.theirs, rng=random.Random(1))
        profiles = build(
            configuration(["Reservation", "Second"]),
            lambda _: base.sibling(),
            place=Place.EXTENDER,
            classes={**installed(), **CLASSES},
            gates=gates(),
        )
        self.extender = Extender(profiles, base)
        self.frameworks = list(profiles.frameworks.values())
        self.informers = Informers(self.cluster, self.theirs)
        await self.informers.start()
        await self.informers.wait_synced(PATIENCE)
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.gone: dict[str, asyncio.Event] = {}

    async def stop(self) -> None:
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self.informers.stop()

    def filter(self, name: str) -> None:
        """Call filter for a pod."""
        answer, attempt = self.extender.filter(filter_body(self.known[name], NODES))
        if attempt is not None:
            self.extender.work_ahead(attempt)
        del answer

    async def attempt(self, name: str) -> None:
        self.filter(name)
        self.gone[name] = asyncio.Event()
        meta = self.known[name]["metadata"]
        call = {"PodName": name, "PodNamespace": "default", "PodUID": meta["uid"], "Node": NODES[0]}

        async def hung_up() -> None:
            await self.gone[name].wait()

        bind = self.extender.bind(msgspec.json.encode(call), hung_up)
        self.tasks[name] = asyncio.create_task(bind)

    async def interrupt(self, what: str, name: str) -> None:
        if what == "filter":
            self.filter(name)
        elif what == "hang up":
            self.gone[name].set()
        else:
            await super().interrupt(what, name)

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()

    def leftovers(self, live: Mapping[str, tuple[str, Mapping[str, str]]]) -> list[str]:
        found = super().leftovers(live)
        attempts = [attempt for attempt in self.extender.attempts if attempt.placement is not None]
        found += [f"{attempt.pod.metadata.uid} is being bound" for attempt in attempts]
        found += [f"bind of {uid} runs" for uid in self.extender.binds._running]
        return found + _under_way(self.extender.binds.fence)


class Queued(Placing):
    """A component with its own queue."""

    queue: SchedulingQueue

    def binding(self) -> int:
        """Return the number of bindings in progress."""
        raise NotImplementedError

    def leftovers(self, live: Mapping[str, tuple[str, Mapping[str, str]]]) -> list[str]:
        found = super().leftovers(live)
        if self.binding():
            found.append("bindings are in progress")
        for uid, (node, _) in live.items():
            pool = self.queue.pool_of(uid)
            if node and pool is not None:
                found.append(f"{uid} is placed, and {pool}")
            if not node and pool in (None, IN_FLIGHT):
                found.append(f"{uid} is not placed, and {pool} in the queue")
        return found


class Reserving(Queued):
    """The scheduler of Reservations."""

    async def start(self) -> None:
        await super().start()
        self.cluster = Cluster(self.clock)
        profiles = build(
            configuration(["Reservation", "Second"]),
            lambda _: Handle(self.cluster, client=self.theirs, rng=random.Random(1)),
            place=Place.EXTENDER,
            classes={**installed(), **CLASSES},
            gates=gates(),
        )
        self.frameworks = list(profiles.frameworks.values())
        self.fence = Fence(self.clock)
        events = Recorder(self.theirs, controller="default-scheduler", clock=self.clock)
        self.scheduler = ReservationScheduler(
            profiles, self.handle, self.theirs, {"default-scheduler": events}, fence=self.fence
        )
        self.informers = Informers(self.cluster, self.theirs)
        await self.informers.start()
        await self.informers.wait_synced(PATIENCE)
        self.running = asyncio.create_task(self.scheduler.run())

    async def stop(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.informers.stop()

    async def cancel(self, name: str) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        self.running = asyncio.create_task(self.scheduler.run())
        await asyncio.sleep(0)

    async def add(self, name: str) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {"spec": {"containers": [container]}},
                "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                "ttl": "0s",
            },
        }
        self.known[name] = await self.client.create_raw(resource_of(Reservation), "", document)

    async def delete(self, name: str) -> None:
        await self.client.delete(Reservation, "", name)

    async def live(self) -> dict[str, tuple[str, Mapping[str, str]]]:
        found = await self.client.list_all(Reservation)
        return {each.metadata.uid: (each.node_name, each.metadata.labels) for each in found}

    def binding(self) -> int:
        return len(self.scheduler._binding)

    def leftovers(self, live: Mapping[str, tuple[str, Mapping[str, str]]]) -> list[str]:
        self.queue = self.scheduler.queue
        found = [f"{uid} is promised a node" for uid in self.scheduler._promised]
        return super().leftovers(live) + found + _under_way(self.fence)


class Standing(Queued):
    """The embedded scheduler."""

    async def start(self) -> None:
        await super().start()
        await self._begin()

    async def _begin(self) -> None:
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {"plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}, {"name": "Second"}]}}}
            ],
        }
        self.scheduler = Scheduler(
            config.read(document),
            self.theirs,
            clock=self.clock,
            rng=random.Random(1),
            classes={**installed(), **CLASSES},
            gates=gates(),
        )
        self.cluster, self.queue = self.scheduler.cluster, self.scheduler.queue
        self.frameworks = list(self.scheduler._profiles.values())
        await self.scheduler.start()

    async def stop(self) -> None:
        await self.scheduler.stop()

    async def cancel(self, name: str) -> None:
        """End the process; its state must be right until then."""
        await self.scheduler.stop()
        await asyncio.sleep(0)
        bound = {uid for uid, (node, _) in (await self.live()).items() if node}
        table = self.cluster.nodes
        for plugin in self.frameworks[0].plugins:
            if isinstance(plugin, Taker):
                assert {uid for uid in plugin.held if table.placed_on(uid) is None} <= bound
        assert not len(self.handle.waiting_pods)
        assert not self.scheduler._binding
        await self._begin()

    def binding(self) -> int:
        return len(self.scheduler._binding)


class WithTestKit(Placing):
    """`koordpy.testing`, which binds by writing into the store."""

    async def start(self) -> None:
        self.cluster = described(*(node_object(name, cpu="64") for name in NODES))
        self.scheduling = Scheduling(self.cluster, First, Second, gates=gates())
        self.frameworks = [self.scheduling.framework]
        self.tasks: dict[str, asyncio.Task[Any]] = {}

    async def stop(self) -> None:
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def add(self, name: str) -> None:
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        self.known[name] = {"metadata": meta, "spec": {"containers": [{"name": "c"}]}}
        self.cluster.store(Pod).apply(decode(Pod, self.known[name]))

    async def attempt(self, name: str) -> None:
        self.tasks[name] = asyncio.create_task(self.scheduling.place(decode(Pod, self.known[name])))

    async def delete(self, name: str) -> None:
        self.cluster.store(Pod).discard(f"default/{name}")

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()

    async def live(self) -> dict[str, tuple[str, Mapping[str, str]]]:
        pods = self.cluster.store(Pod)
        return {pod.metadata.uid: (pod.spec.node_name, pod.metadata.labels) for pod in pods}


def _under_way(fence: Fence) -> list[str]:
    return ["the fence waits for a write"] if fence._writes else []
