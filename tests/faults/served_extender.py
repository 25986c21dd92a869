"""The extender as `koordpy serve` composes it, on an API server of this process and on simulated time.

State machines drive it: they act as kube-scheduler, the users, and the network to the API server.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml

from koordpy import data
from koordpy import settings as service_settings
from koordpy.api.core import Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.extender.extender import Extender
from koordpy.simulation.inprocess import ServerChannel
from tests.faults.weather import Weather
from tests.processes import extender_of, serve_process
from tests.unit.scheduling.worlds import bind_body

T = TypeVar("T")
Document = dict[str, Any]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CPUS = 8
"""Of each node."""


class ServedExtender:
    """One cluster with an extender. Subclasses configure it."""

    extender_settings: ClassVar[Document] = {}
    light: ClassVar[bool] = False
    nodes: ClassVar[tuple[str, ...]] = ("n0", "n1", "n2")

    def __init__(self) -> None:
        super().__init__()
        loops: list[SimulatedLoop] = []

        def make() -> SimulatedLoop:
            loops.append(SimulatedLoop())
            return loops[-1]

        self.runner = asyncio.Runner(loop_factory=make)
        self.runner.get_loop()
        self.clock = SimulatedClock(loops[0], START)
        self.folder = tempfile.TemporaryDirectory()
        self.profiles = self.configured()
        (Path(self.folder.name) / "profiles.yaml").write_text(yaml.safe_dump(self.profiles))
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock, rng=random.Random(1))
        self.client = Client(ServerChannel(self.server), rng=random.Random(1))
        self.weather = Weather(self.server, self.sent)
        self.service = self.new_service()
        self.documents: list[Document] = [pod("phantom", uid="uid-of-nobody")]
        """Every pod that ever existed, and one that never did."""

    def configured(self) -> Document:
        """Return the profiles: the shipped ones."""
        return shipped_profiles(light=self.light)

    def sent(self, method: str, path: str, body: bytes) -> None:
        """Record a request of koordpy's."""

    def new_service(self) -> Process:
        """Return a process that is not started yet."""
        extender = {
            "port": 0,
            "schedulerConfig": str(Path(self.folder.name) / "profiles.yaml"),
            "leaderElect": False,
            **self.extender_settings,
        }
        found = service_settings.load(None, {"parts": ["extender"], "extender": extender, "shutdownDelay": 0})
        options: dict[str, Any] = {"connection": self.weather, "clock": self.clock, "rng": random.Random(7)}
        return serve_process(found, listens=False, **options)

    @property
    def extender(self) -> Extender:
        return extender_of(self.service)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a step, and advance the time a little."""

        async def then() -> T:
            try:
                return await work
            finally:
                await asyncio.sleep(0.01)

        return self.runner.run(then())

    async def start(self) -> None:
        """Create the nodes and start the process."""
        await self.server.load()
        for name in self.nodes:
            await self.put_node(name, CPUS)
            await self.put_metric(name, 1)
        await self.service.start()

    def stop(self) -> None:
        """Stop the process, and remove its files."""
        self.do(self.service.stop())
        self.runner.close()
        self.folder.cleanup()

    # --- the cluster -----------------------------------------------------------------------------

    async def put_node(self, name: str, cpu: int) -> None:
        """Create or change a node."""
        allocatable = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
        status = {"capacity": allocatable, "allocatable": allocatable}
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        try:
            await self.client.create_raw(resource_of(Node), "", document)
        except AlreadyExists:
            await self.client.patch_status(Node, "", name, {"status": status})

    async def put_metric(self, name: str, cpu: int) -> None:
        """Report the CPU usage of a node."""
        resource = resource_of(NodeMetric)
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        with suppress(AlreadyExists):
            await self.client.create_raw(resource, "", {**document, "spec": {}})
        usage = {"nodeUsage": {"resources": {"cpu": str(cpu), "memory": "1Gi"}}}
        status = {"updateTime": format_time(self.clock.now()), "nodeMetric": usage}
        await self.client.patch_status(NodeMetric, "", name, {"status": status})

    async def create_reservation(
        self, name: str, cpu: int, app: str, ttl: str = "0s", *, once: bool = False, policy: str = ""
    ) -> None:
        """Create a Reservation, unless there is one of that name."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
        spec: Document = {
            "template": {"spec": {"containers": [container]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            "ttl": ttl,
            "allocateOnce": once,
        }
        if policy:
            spec["allocatePolicy"] = policy
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": spec,
        }
        with suppress(AlreadyExists):
            await self.client.create_raw(resource_of(Reservation), "", document)

    @staticmethod
    async def missing_is_fine(work: Coroutine[Any, Any, Any]) -> None:
        """Change an object that may not exist."""
        with suppress(NotFound):
            await work

    # --- kube-scheduler --------------------------------------------------------------------------

    def picked(self, number: int) -> Document:
        """Return a pod, most often one of the latest."""
        return self.documents[-1 - number % len(self.documents)]

    async def ask(self, verb: str, body: Document) -> Any:
        """Call the extender as its endpoints do, with bodies formatted as by Go."""
        content = json.dumps(body, separators=(",", ":")).encode()
        if verb == "filter":
            answer, attempt = self.extender.filter(content)
            if attempt is not None:
                self.extender.work_ahead(attempt)
            return json.loads(answer)
        return json.loads(getattr(self.extender, verb)(content))

    async def bind_call(self, document: Document, node: str) -> str:
        """Call bind; return the error."""
        return str(json.loads(await self.extender.bind(bind_body(document, node)))["Error"])


def shipped_profiles(*, light: bool) -> Document:
    """Return the shipped profiles with more plugins that count for a bind."""
    full = data.deploy("kustomize", "components", "reservations", "koordpy-profiles-reservations.yaml")
    path = data.deploy("scheduler", "koordpy-profiles-light.yaml") if light else full
    document: Document = yaml.safe_load(path.read_text())
    document["profiles"] = document["profiles"][:1]  # default-scheduler
    plugins = document["profiles"][0]["plugins"]
    for each in document["profiles"][0]["pluginConfig"]:
        if each["name"] == "LoadAwareScheduling":
            each["args"]["usageThresholds"] = {"cpu": 95}
    plugins.setdefault("multiPoint", {}).setdefault("enabled", []).append({"name": "SchedulingHint"})
    if light:
        plugins["filter"]["enabled"].append({"name": "NodeResourcesFit"})
    return document


def pod(name: str, cpu: int = 1, **metadata: Any) -> Document:
    """Return a pod."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu), "memory": "64Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"schedulerName": "default-scheduler", "containers": [container]},
    }
