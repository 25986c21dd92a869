"""All interleavings of calls, in scopes small enough for that.

A run asks `Choices` what happens next, wherever several things may; run after run takes the next branch until
all were taken. Every run uses the same extender: what one leaves behind is found at its end.
"""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from koordpy import data
from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.gang.membership import gang_name
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.extender.extender import create
from koordpy.scheduling.profiles import config
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE
from tests.faults.competing import cpus, milli, pod_document
from tests.faults.rebuilt import leftovers
from tests.faults.weather import Weather

Document = dict[str, Any]

NAMESPACE = "default"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = 0.05
"""Seconds after which everything that a call causes has happened."""
RETRY = 11.0
"""Seconds after which kube-scheduler has tried every pod again."""
ROUNDS = 12
FORGOTTEN = 1500.0


class Choices:
    """The branches of a run; iterate to get one object for each run."""

    def __init__(self) -> None:
        self._taken: list[int] = []
        self._of: list[int] = []
        self._at = 0

    def __iter__(self) -> Iterator["Choices"]:
        """Yield itself until every combination of branches was taken."""
        while True:
            self._at = 0
            yield self
            del self._taken[self._at :], self._of[self._at :]
            while self._taken and self._taken[-1] + 1 == self._of[-1]:
                self._taken.pop()
                self._of.pop()
            if not self._taken:
                return
            self._taken[-1] += 1

    def choose(self, count: int) -> int:
        """Return which one of `count` possibilities happens in this run."""
        if self._at == len(self._taken):
            self._taken.append(0)
            self._of.append(count)
        assert self._of[self._at] == count, "a run is not repeatable"
        self._at += 1
        return self._taken[self._at - 1]


class SmallCluster:
    """Nodes, an extender, and kube-scheduler's calls, one by one."""

    def __init__(self, loop: SimulatedLoop, profile: Document) -> None:
        self.clock = SimulatedClock(loop, START)
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock, rng=random.Random(1))
        self.weather = Weather(self.server, lambda *_: None)
        self.client = Client(ServerChannel(self.server), rng=random.Random(1))
        self.cluster = Cluster(self.clock)
        theirs = Client(self.weather, rng=random.Random(1))
        self.extender = create(config.read(profile), self.cluster, theirs)
        self._informers = Informers(self.cluster, theirs)
        self.documents: dict[str, Document] = {}
        """The pods that exist, by name."""
        self.answers: dict[str, str] = {}
        """The nodes of pods that are about to be bound, by name."""
        self.binds: dict[str, tuple[str, asyncio.Task[bytes]]] = {}
        self.evictions: Counter[str] = Counter()
        """By the name of the pod as it was created first."""
        self._beside: asyncio.Task[None] | None = None
        self.cluster.store(Pod).subscribe(lambda _: None, self._updated, lambda _: None)

    async def start(self, nodes: Mapping[str, int]) -> None:
        """Create nodes with so many CPUs, and start."""
        await self.server.load()
        for namespace in ("koordinator-system", "kube-system"):
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            with suppress(AlreadyExists):
                await self.client.create_raw(resource_of(Namespace), "", document)
        for name, cpu in nodes.items():
            amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
            status = {"capacity": amounts, "allocatable": amounts}
            document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
            await self.client.create_raw(resource_of(Node), "", document)
        await self._informers.start()
        await self._informers.wait_synced(PATIENCE)
        self._beside = asyncio.create_task(self.extender.post_filters.run())

    async def stop(self) -> None:
        """End."""
        if self._beside is not None:
            self._beside.cancel()
        self.extender.close("end of the test")
        await asyncio.gather(*(task for _, task in self.binds.values()), return_exceptions=True)
        await self._informers.stop()

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            self.evictions[new.metadata.name.partition("-again")[0]] += 1

    # --- calls -----------------------------------------------------------------------------------

    async def add(self, name: str, cpu: str = "1", **options: Any) -> None:
        """Create a pod."""
        document = pod_document(name, cpu, **options)
        self.documents[name] = await self.client.create_raw(resource_of(Pod), NAMESPACE, document)

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        with suppress(NotFound):
            await self.client.delete(Pod, NAMESPACE, name, grace_period_seconds=0)
        for known in (self.documents, self.answers):
            known.pop(name, None)
        await asyncio.sleep(SOON)

    async def filter(self, name: str) -> None:
        """Try a pod on the nodes that kube-scheduler offers."""
        document = self.documents[name]
        requests = document["spec"]["containers"][0]["resources"]["requests"]
        names = [node for node, cpu in (await self.free()).items() if cpu >= milli(requests["cpu"])]
        if names:
            body = json.dumps({"Pod": document, "NodeNames": names}, separators=(",", ":")).encode()
            answer, attempt = self.extender.filter(body)
            if attempt is not None:
                self.extender.work_ahead(attempt)
            if kept := json.loads(answer).get("NodeNames"):
                self.answers[name] = kept[0]
        await asyncio.sleep(SOON)

    async def bind(self, name: str) -> None:
        """Begin to bind a pod to the node that it was given."""
        node, meta = self.answers.pop(name), self.documents[name]["metadata"]
        call = {"PodName": name, "PodNamespace": NAMESPACE, "PodUID": meta["uid"], "Node": node}
        self.binds[name] = node, asyncio.create_task(self.extender.bind(json.dumps(call).encode()))
        await asyncio.sleep(SOON)

    def ended(self) -> None:
        """Forget bind calls that have ended."""
        self.binds = {name: bind for name, bind in self.binds.items() if not bind[1].done()}

    def fail_next_bind(self) -> None:
        """Refuse the next binding."""
        self.weather.troubles.append(("POST", "/binding", Fault(status=500)))

    # --- the cluster -----------------------------------------------------------------------------

    async def pods(self) -> dict[str, Pod]:
        """Return all pods by name."""
        return {pod.metadata.name: pod for pod in await self.client.list_all(Pod, NAMESPACE)}

    async def free(self) -> dict[str, int]:
        """Return the free CPUs of nodes in thousandths, as kube-scheduler knows them."""
        self.ended()
        left = {
            node.metadata.name: milli(node.status.allocatable["cpu"])
            for node in await self.client.list_all(Node)
        }
        for name, pod in (await self.pods()).items():
            node = pod.spec.node_name or self.answers.get(name) or self.binds.get(name, ("",))[0]
            if node in left:
                left[node] -= cpus(pod)
        return left

    async def waiting(self) -> list[str]:
        """Return the pods that kube-scheduler may try now."""
        self.ended()
        return [
            name
            for name, pod in (await self.pods()).items()
            if name in self.documents
            and not pod.spec.node_name
            and name not in self.answers
            and name not in self.binds
        ]

    async def bound_pods(self) -> list[Pod]:
        """Return the pods that have a node."""
        return [pod for pod in (await self.pods()).values() if pod.spec.node_name]

    async def bound(self) -> dict[str, int]:
        """Return how many pods of each gang are bound."""
        found: dict[str, int] = defaultdict(int)
        for pod in await self.bound_pods():
            found[gang_name(pod)] += 1
        return dict(found)

    async def settle(self) -> None:
        """Go on as kube-scheduler does until nothing changes any more; that must be soon."""
        before: object = None
        for _ in range(ROUNDS):
            for name in list(self.answers):
                await self.bind(name)
            for name in await self.waiting():
                await self.filter(name)
                if name in self.answers:
                    await self.bind(name)
            await asyncio.sleep(RETRY)
            self.ended()
            state = sorted((name, pod.spec.node_name) for name, pod in (await self.pods()).items())
            if state == before and not self.binds:
                return
            before = state
        raise AssertionError(f"not at rest after {ROUNDS} rounds: {before}, {self.binds}")

    async def check_nodes(self) -> None:
        """No node has more pods, planned ones too, than it can have."""
        table = self.extender.nodes
        for node in await self.client.list_all(Node):
            row = table.row_of(node.metadata.name)
            assert row is not None
            used = sum(cpus(pod) for pod in table.pods_on(row))
            assert used <= milli(node.status.allocatable["cpu"]), (node.metadata.name, used)
        assert min((await self.free()).values()) >= 0

    async def clear(self) -> None:
        """Delete all pods; nothing is left of them."""
        self.weather.clear_up()
        for name in list(await self.pods()):
            await self.delete(name)
        await asyncio.sleep(FORGOTTEN)
        self.ended()
        assert not self.binds
        self.evictions.clear()
        body = {"Pod": {"metadata": {"name": "probe", "uid": "uid-of-probe"}, "spec": {}}, "NodeNames": []}
        self.extender.filter(json.dumps(body).encode())  # each call clears away what has expired
        assert leftovers(self.extender) == []
        assert not self.extender.handle.nominator
        assert not len(self.extender.tentative)
        assert not self.extender.nodes.unconfirmed()
