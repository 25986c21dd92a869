"""Reservations on an API server of this process, and a scheduler of them with a plugin of a few lines."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from koordpy import data
from koordpy.api.core import Event, Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.reserve_pod import reservation_name_of
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Faults
from koordpy.scheduling.interface import (
    Bind,
    Binding,
    Filter,
    Permit,
    Plugin,
    PostFilter,
    ReservationNominator,
    ReservationPreBind,
    Reserve,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.scheduling.reservations.scheduler import ReservationScheduler
from koordpy.scheduling.toolkit.reservation_writes import write_status
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE
from tests.unit.scheduling.worlds import configuration

Document = dict[str, Any]


class OneANode(Plugin, Filter, Reserve, ReservationPreBind, Bind, Permit, PostFilter, ReservationNominator):
    """Allows one Reservation per node."""

    name = "Reservation"

    def __init__(self, args, handle) -> None:
        super().__init__(args, handle)
        self.held: dict[str, str] = {}
        self.waits = 0.0
        self.promises = ""
        self.writes: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.refuses_binds = False
        handle.on(Reservation, self._seen, lambda _, new: self._seen(new), self._gone)

    def _seen(self, reservation: Reservation) -> None:
        if reservation.is_available:
            self.held[reservation.node_name] = reservation.metadata.uid
        elif reservation.is_terminated:
            self._gone(reservation)

    def _gone(self, reservation: Reservation) -> None:
        self.held = {node: uid for node, uid in self.held.items() if uid != reservation.metadata.uid}

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("node is reserved") if node.name in self.held else SUCCESS

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        if self.promises:
            return PostFilterResult(self.promises, override=True), SUCCESS
        return None, Status.unschedulable("no victim makes room")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        if node_name in self.held:
            return Status.unschedulable("node is reserved")
        self.held[node_name] = pod.metadata.uid
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.held.get(node_name) == pod.metadata.uid:
            del self.held[node_name]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(self.waits) if self.waits else SUCCESS

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        assert reservation.node_name == node_name
        binding.annotations.update(self.writes)
        binding.labels.update(self.labels)
        return SUCCESS

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        reservation = self.handle.cluster.store(Reservation).by_key(reservation_name_of(pod))
        assert reservation is not None
        assert self.handle.client is not None
        if self.refuses_binds:
            return Status.failed("not now")
        try:
            await write_status(
                self.handle.client,
                reservation,
                lambda current: set_available(current, binding.node_name, self.handle.clock.now()),
                rng=self.handle.rng,
            )
        except Exception as error:
            return Status.failed(error)
        return SUCCESS

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        return None, SUCCESS

    def delete_nominated_reservation(self, pod: Pod) -> None:
        pass


def reservation(name: str, cpu: str = "1", **spec: Any) -> Document:
    metadata = spec.pop("metadata", {})
    pod_spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec.pop("pod", {})}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, **metadata},
        "spec": {
            "template": {"spec": pod_spec},
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
            **spec,
        },
    }


class Stage:
    """A cluster, and the scheduler of its Reservations."""

    def __init__(self, server: ApiServer, plugin: type[OneANode]) -> None:
        self.server = server
        self.client = Client(ServerChannel(server))
        self.cluster = Cluster()
        self.profiles: Profiles = build(
            configuration(["Reservation"]),
            lambda _: Handle(self.cluster, client=self.client),
            place=Place.EXTENDER,
            classes={"Reservation": plugin},
        )
        framework = self.profiles.frameworks["default-scheduler"]
        self.handle = framework.handle
        made = framework.plugins[0]
        assert isinstance(made, OneANode)
        self.plugin = made
        self.recorder = Recorder(self.client, controller="default-scheduler")
        self.scheduler = ReservationScheduler(
            self.profiles,
            self.handle,
            self.client,
            {"default-scheduler": self.recorder},
            initial_backoff=0.01,
            max_backoff=0.05,
        )
        self.running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.running = asyncio.create_task(self.scheduler.run())

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)

    async def add_node(self, name: str) -> None:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        await self.client.create_raw(resource_of(Node), "", document)
        await self.until(lambda: self.cluster.store(Node).get("", name) is not None)

    async def add(self, name: str, **spec: Any) -> None:
        await self.client.create_raw(resource_of(Reservation), "", reservation(name, **spec))

    async def get(self, name: str) -> Reservation:
        return await self.client.get(Reservation, "", name)

    async def node_of(self, name: str) -> str:
        await self.until(lambda: self.known(name) is not None and bool(self.known(name).node_name))
        return str(self.known(name).node_name)

    def known(self, name: str) -> Any:
        return self.cluster.store(Reservation).by_key(name)

    async def message_of(self, name: str) -> str:
        """Wait until a Reservation's status shows why it is not scheduled."""
        await self.until(lambda: self.known(name) is not None and bool(self.known(name).status.conditions))
        return str(self.known(name).status.conditions[0].message)

    async def events(self, reason: str) -> list[Event]:
        await self.recorder.flush()
        return [event for event in await self.client.list_all(Event, "default") if event.reason == reason]

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.002)


@asynccontextmanager
async def staged(
    *nodes: str, faults: Faults | None = None, plugin: type[OneANode] = OneANode
) -> AsyncIterator[Stage]:
    server = ApiServer(crds=[data.deploy("crds")], faults=faults)
    await server.load()
    stage = Stage(server, plugin)
    async with Informers(stage.cluster, stage.client) as informers:
        await informers.wait_synced(PATIENCE)
        for name in nodes:
            await stage.add_node(name)
        await stage.start()
        try:
            yield stage
        finally:
            await stage.stop()
