"""A cluster with gangs and quotas for which a state machine acts as kube-scheduler, users and kubelets.

Calls come in any order, are repeated, lost or late, and binds fail; the process loses its Lease or is
restarted. What must hold at every moment is in `problems`, and what must hold in the end in `settle`.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from koordpy.api.core import Lease, Namespace, Node, Pod, PriorityClass
from koordpy.api.gang.membership import gang_id, gang_name
from koordpy.api.koordinator import ElasticQuota, PodGroup
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.informers import Informers
from koordpy.lib import byte_budget
from koordpy.scheduling.extender.extender import Extender
from koordpy.simulation.inprocess import ServerChannel
from koordpy.testing.rebuild import differences
from koordpy.testing.rebuild import settle as settle_states
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota as ElasticQuotaPlugin
from koordpy_plugins.scheduling.elasticquota.state.amounts import exceeded, plus
from tests.audited import Crowded
from tests.eventually import PATIENCE
from tests.faults.competing import FORGOTTEN, Witness, cpus, create, milli, pod_document, profile
from tests.faults.rebuilt import leftovers, memory, rebuilt
from tests.faults.served_extender import Document, ServedExtender
from tests.processes import leads
from tests.unit.scheduling.worlds import bind_body

P = TypeVar("P")

NAMESPACE = "default"
GANG = "gang.scheduling.koordinator.sh/"
QUOTA = "quota.scheduling.koordinator.sh/"
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
WAIT = 30.0
"""Seconds for which members of gangs wait for each other."""
NODE_CPUS = 4
IMPORTANT = "important"
RETRY = 10.0
"""Seconds after which kube-scheduler tries all pods again, in the end."""
ROUNDS = 60
"""After so many rounds of attempts without a fault nothing may change any more."""


class ContendedCluster(ServedExtender):
    """The cluster. `maximum` are the limits of quotas in thousandths of a CPU, `parent` their parents."""

    extender_settings: ClassVar[Document] = {"decisions": 20, "leaderElect": True}
    nodes: ClassVar[tuple[str, ...]] = ("n0", "n1", "n2")
    coscheduling: ClassVar[Document] = {
        "enablePreemption": True,
        "preemptionJointFit": True,
        "preemptionConsidersPDBs": True,
    }
    quotas: ClassVar[Document] = {"enableRuntimeQuota": False, "enableCheckParentQuota": True}
    maximum: ClassVar[Mapping[str, int]] = {"team": 8, "qa": 6, "qb": 4}
    parent: ClassVar[Mapping[str, str]] = {"qa": "team", "qb": "team"}
    enforced: ClassVar[frozenset[str]] = frozenset(maximum)
    """Quotas that never use more than their maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.witness = Witness(self.clock)
        self._known_nodes = self.witness.cluster.store(Node)
        self._watching = Informers(self.witness.cluster, Client(ServerChannel(self.server)))
        self.answers: dict[str, list[str]] = {}
        """The nodes of the latest filter call, by UID."""
        self.binds: dict[str, tuple[str, asyncio.Task[str], asyncio.Event]] = {}
        """Bind calls in progress by UID: the node, the call, and what is set when the caller hangs up."""
        self.limits = {name: 1000 * cpu for name, cpu in self.maximum.items()}
        self.lowered = Crowded()
        """Quotas whose limit was lowered below what they used."""
        self.allowed_before: set[str] = set()
        """UIDs of pods that had room in their quotas before these were lowered."""
        self.crowded = Crowded()
        """Nodes on which a second scheduler, or a change of the node, has taken room."""
        self.lags = False
        self.minimum: dict[str, int] = {}
        self.grouped: dict[str, tuple[str, ...]] = {}
        self.partly_since: dict[str, float] = {}
        self.is_disturbed = False
        """Whether anything happened that may leave a gang partly bound: a failure, a change by others."""
        self._used: dict[str, int] = {}
        self._seen: set[str] = set()
        self.witness.checks.append(self._exceeded)

    def configured(self) -> Document:
        return profile(
            Coscheduling={"defaultTimeout": f"{WAIT:g}s", **self.coscheduling}, ElasticQuota=self.quotas
        )

    async def start(self) -> None:
        await self.server.load()
        for namespace in ("koordinator-system", "kube-system"):
            with suppress(AlreadyExists):
                await self.create(Namespace, namespace, {}, namespace="")
        for name in self.nodes:
            await self.put_node(name, NODE_CPUS)
        await self.client.create_raw(
            resource_of(PriorityClass),
            "",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": IMPORTANT},
                "value": 100,
            },
        )
        for name, cpu in self.maximum.items():
            labels = {f"{QUOTA}is-parent": "true"} if name in self.parent.values() else {}
            if name in self.parent:
                labels[f"{QUOTA}parent"] = self.parent[name]
            await self.create(ElasticQuota, name, {"max": {"cpu": str(cpu)}, "min": {}}, labels=labels)
        await self._watching.start()
        await self._watching.wait_synced(PATIENCE)
        await self.begin_service()

    async def begin_service(self) -> None:
        """Start the process, and wait until it leads."""
        await self.service.start()
        while not leads(self.service):
            await asyncio.sleep(0.5)

    async def restart(self) -> None:
        """Replace the process; its calls end."""
        await self.service.stop()
        await asyncio.sleep(0.1)
        self.answers.clear()
        self.service = self.new_service()
        await self.begin_service()

    async def lose_lease(self) -> None:
        """Let another process take the Lease, and never renew it."""
        found = await self.client.list_all(Lease)
        for lease in found:
            spec = {"holderIdentity": "another", "renewTime": f"{self.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"}
            meta = lease.metadata
            await self.client.patch(Lease, meta.namespace, meta.name, {"spec": spec})

    async def end(self) -> None:
        """Stop the witness; `stop` ends the process."""
        await self._watching.stop()

    # --- objects ---------------------------------------------------------------------------------

    async def create(
        self, type_: type[KubeObject], name: str, spec: Document, *, namespace: str = NAMESPACE, **meta: Any
    ) -> None:
        """Create an object."""
        await create(self.client, type_, namespace, name, spec, **meta)

    async def add_pod(self, document: Document) -> None:
        """Create a pod, unless there is one of that name."""
        with suppress(AlreadyExists):
            made = await self.client.create_raw(resource_of(Pod), NAMESPACE, document)
            self.documents.append(made)

    async def remove_pod(self, name: str) -> None:
        """Delete a pod at once."""
        await self.missing_is_fine(self.client.delete(Pod, NAMESPACE, name, grace_period_seconds=0))

    def member(self, gang: str, number: int, cpu: str, labels: Document, *, important: bool) -> Document:
        """Return a member of a gang of annotations."""
        annotations = {
            f"{GANG}name": gang,
            f"{GANG}min-available": str(self.minimum[gang]),
            f"{GANG}waiting-time": f"{WAIT:g}s",
        }
        if self.grouped.get(gang):
            annotations[f"{GANG}groups"] = json.dumps([f"{NAMESPACE}/{each}" for each in self.grouped[gang]])
        priority = IMPORTANT if important else ""
        return pod_document(
            f"{gang}-{number}", cpu, labels=labels, annotations=annotations, priority_class=priority
        )

    async def pods(self) -> list[Pod]:
        """Return all pods."""
        return list(await self.client.list_all(Pod, NAMESPACE))

    async def end_pods(self) -> None:
        """Do what kubelets do for pods that are being deleted."""
        for pod in await self.pods():
            if pod.metadata.deletion_timestamp:
                await self.remove_pod(pod.metadata.name)

    # --- kube-scheduler --------------------------------------------------------------------------

    def free(self) -> dict[str, int]:
        """Return the free CPUs of nodes in thousandths as kube-scheduler knows them."""
        left = {node.metadata.name: milli(node.status.allocatable["cpu"]) for node in self._known_nodes}
        for pod in self.witness.cluster.store(Pod):
            binding = self.binds.get(pod.metadata.uid)
            name = pod.spec.node_name or (binding[0] if binding is not None else "")
            if name in left:
                left[name] -= cpus(pod)
        return left

    def fitting(self, document: Document) -> list[str]:
        """Return the nodes on which a pod fits, as far as kube-scheduler knows."""
        requests = document["spec"]["containers"][0]["resources"]["requests"]
        return sorted(name for name, cpu in self.free().items() if cpu >= milli(requests["cpu"]))

    async def filter(self, document: Document, names: Sequence[str]) -> list[str]:
        """Call filter, and prioritize if several nodes are left."""
        uid = document["metadata"]["uid"]
        told = await self.ask("filter", {"Pod": document, "NodeNames": list(names)})
        kept = self.answers[uid] = list(told.get("NodeNames") or [])
        if len(kept) > 1:
            await self.ask("prioritize", {"Pod": document, "NodeNames": kept})
        return kept

    def bind(self, document: Document, node: str) -> None:
        """Begin a bind call."""
        uid, gone = document["metadata"]["uid"], asyncio.Event()
        self.binds_now()
        if uid in self.binds:
            return
        task = self.runner.get_loop().create_task(self._bound(self.extender, document, node, gone))
        self.binds[uid] = node, task, gone

    async def _bound(self, extender: Extender, document: Document, node: str, gone: asyncio.Event) -> str:
        async def hung_up() -> None:
            await gone.wait()

        return str(json.loads(await extender.bind(bind_body(document, node), hung_up))["Error"])

    def binds_now(self) -> int:
        """Forget bind calls that have ended; return how many are left."""
        for uid, (_, task, _) in list(self.binds.items()):
            if task.done():
                task.result()
                del self.binds[uid]
        return len(self.binds)

    async def schedule(self) -> None:
        """Try all pods that wait, one after the other; bind or preempt, as kube-scheduler does."""
        self.binds_now()
        live = {pod.metadata.uid: pod for pod in await self.pods()}
        for document in list(self.documents):
            pod = live.get(document["metadata"]["uid"])
            if pod is None or pod.spec.node_name or pod.metadata.uid in self.binds:
                continue
            names = self.fitting(document)
            kept = await self.filter(document, names) if names else []
            if kept:
                self.bind(document, kept[0])
            else:
                await self.preempt(document)
                await self.report(pod)
            await asyncio.sleep(0.01)

    async def preempt(self, document: Document) -> None:
        """Propose that less important pods go from a node, and delete those that koordpy agrees with."""
        found = {
            pod.metadata.uid: pod
            for pod in self.witness.cluster.store(Pod)
            if pod.spec.node_name and not pod.spec.priority and not pod.metadata.deletion_timestamp
        }
        if not document["spec"].get("priority"):
            return
        on_node: dict[str, list[str]] = defaultdict(list)
        for uid, pod in found.items():
            on_node[pod.spec.node_name].append(uid)
        victims = {name: {"Pods": [{"UID": uid} for uid in uids]} for name, uids in sorted(on_node.items())}
        if not victims:
            return
        told = await self.ask("preempt", {"Pod": document, "NodeNameToMetaVictims": victims})
        agreed: dict[str, Document] = told.get("NodeNameToMetaVictims") or {}
        for victims_there in list(agreed.values())[:1]:
            for each in victims_there["Pods"] or ():
                if each["UID"] in found:
                    name = found[each["UID"]].metadata.name
                    await self.missing_is_fine(self.client.delete(Pod, NAMESPACE, name))

    # --- what must hold at every moment ----------------------------------------------------------

    def used(self) -> dict[str, int]:
        """Return what bound pods of quotas and of their parents request, in thousandths of a CPU."""
        used: dict[str, int] = defaultdict(int)
        for pod in self.witness.bound.values():
            name = pod.metadata.labels.get(f"{QUOTA}name", "")
            while name:
                used[name] += cpus(pod)
                name = self.parent.get(name, "")
        return used

    def _exceeded(self, now: float) -> Iterator[str]:
        used, before = self.used(), self._used
        fresh = self.witness.bound.keys() - self._seen - self.allowed_before
        self._used, self._seen = used, set(self.witness.bound)
        if not any(self.witness.bound[uid].spec.scheduler_name != "another" for uid in fresh):
            return
        for name in self.enforced & used.keys():
            amount = used[name]
            if amount > max(self.limits[name], before.get(name, 0)):
                yield f"{name} uses {amount} of {self.limits[name]}"

    def check(self) -> None:
        """Raise AssertionError for what is wrong now."""
        found = list(self.problems())
        assert not found, found

    def problems(self) -> Iterator[str]:
        """Yield what is wrong now."""
        yield from self.witness.problems
        self.binds_now()
        yield from self._over_committed()
        if not self.lags:
            yield from self._unexplained()
        yield from self._quotas()
        for name, usage in byte_budget.usage().items():
            if not 0 <= usage.held <= usage.limit:
                yield f"{name} holds {usage}"
        yield from self._partly_bound()

    def _over_committed(self) -> Iterator[str]:
        table = self.extender.nodes
        for node in self._known_nodes:
            name = node.metadata.name
            row = table.row_of(name)
            if row is None:
                continue
            most = milli(node.status.allocatable["cpu"])
            on_node = {pod.metadata.uid: cpus(pod) for pod in table.pods_on(row)}
            for pod in self.witness.bound.values():
                if pod.spec.node_name == name and not pod.is_terminal:
                    on_node.setdefault(pod.metadata.uid, cpus(pod))
            if sum(on_node.values()) <= most:
                self.crowded.discard(name)
            elif name not in self.crowded:
                yield f"{name} has {sum(on_node.values())} of {most}: {on_node}"

    def _unexplained(self) -> Iterator[str]:
        """Yield what is held of pods that nobody is about to bind."""
        extender, table = self.extender, self.extender.nodes
        live = {pod.metadata.uid for pod in self.witness.cluster.store(Pod)}
        binding, held = set(extender.binds._running), set[str]()
        term = extender.binds.fence.term
        for plan in extender.jobs.held:
            for uid, placement in plan.placements.items():
                held.add(uid)
                known = self.plugin(Coscheduling).cache.gangs
                if uid not in live:
                    yield f"{uid} of {plan.job.id} is held, and gone"
                if gang_id(placement.pod) not in known:
                    yield f"{uid} is held for gang {gang_id(placement.pod)}, which is gone"
                if table.placed_on(uid) != placement.node_name:
                    yield f"{uid} is held on {placement.node_name}, and is on {table.placed_on(uid)}"
            if term and plan.term != term and extender.jobs.held.of(next(iter(plan.placements), "")):
                yield f"{plan.job.id} is held for term {plan.term}, in term {term}"
        for uid, counted in extender.tentative._pods.items():
            if counted.ahead is None:
                continue
            held.add(uid)
            node = counted.ahead.placement.node_name
            if uid not in live:
                yield f"{uid} is reserved on {node}, and gone"
            if table.placed_on(uid) != node:
                yield f"{uid} is reserved on {node}, and is on {table.placed_on(uid)}"
        bound = set(extender.binds.bound.uids)
        explained = held | binding | bound
        assumed = (uid for uid, placed in table._placements.items() if placed.assumed)
        yield from (
            f"{uid} is assumed, and neither planned nor being bound"
            for uid in assumed
            if uid not in explained
        )
        for waiting in extender.handle.waiting_pods:
            if waiting.pod.metadata.uid not in binding:
                yield f"{waiting.pod.metadata.uid} waits in Permit without a bind call"
        trees = self.plugin(ElasticQuotaPlugin).trees
        for uid in trees._tentative.uids - extender.tentative._pods.keys() - explained:
            yield f"{uid} is charged to a quota, and nobody is about to bind it"

    def _quotas(self) -> Iterator[str]:
        trees = self.plugin(ElasticQuotaPlugin).trees
        for name in self.enforced:
            info = trees.quota(name)
            if info is None:
                continue
            excess = exceeded(plus(info.used, info.tentative), info.max)
            if excess and name not in self.lowered:
                yield f"{name} has {info.used} in use, {info.tentative} charged, of {info.max}"
            if not excess and not self.lags:
                self.lowered.discard(name)

    def _partly_bound(self) -> Iterator[str]:
        """Yield gangs that are partly bound for longer than their members may wait, and never were whole."""
        bound: dict[str, int] = defaultdict(int)
        for pod in self.witness.bound.values():
            bound[gang_name(pod)] += 1
        now = self.clock.monotonic()
        for name, minimum in self.minimum.items():
            if bound[name] >= minimum:
                self.partly_since[name] = float("inf")  # it was whole: what happens to its pods is their end
            elif not bound[name]:
                if self.partly_since.get(name) != float("inf"):
                    self.partly_since.pop(name, None)
            else:
                since = self.partly_since.setdefault(name, now)
                if now - since > 2 * WAIT and not self.is_disturbed:
                    yield f"{name} has {bound[name]} of {minimum} pods since {since}"

    def plugin(self, kind: type[P]) -> P:
        """Return a plugin of the profile."""
        [framework] = self.extender.profiles.frameworks.values()
        return next(plugin for plugin in framework.plugins if isinstance(plugin, kind))

    # --- what must hold in the end ---------------------------------------------------------------

    async def settle(self) -> None:
        """Try all pods as kube-scheduler does, without faults, until nothing changes any more."""
        self.weather.clear_up()
        self.lags = False
        await asyncio.sleep(60.0)
        before: list[Any] = []
        for _ in range(ROUNDS):
            await self.end_pods()
            pods = await self.pods()
            state = [sorted((pod.metadata.uid, pod.spec.node_name) for pod in pods), self.binds_now()]
            before.append(state)
            if len(before) > 8 and all(each == state for each in before[-8:]) and not state[1]:
                return
            await self.schedule()
            await asyncio.sleep(RETRY)
        raise AssertionError(f"pods still move after {ROUNDS} rounds: {before[-4:]}")

    async def report(self, pod: Pod) -> None:
        """Write what kube-scheduler writes for a pod without a node."""
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"at {self.clock.now()}",
        }
        with suppress(NotFound):
            await self.client.patch_status(
                Pod, NAMESPACE, pod.metadata.name, {"status": {"conditions": [condition]}}
            )

    def group_of(self, name: str) -> tuple[str, ...]:
        """Return the group of a gang, which may be named by another one of it alone."""
        return next((group for group in self.grouped.values() if name in group), (name,) if name else ())

    async def waiting_that_fit(self) -> list[str]:
        """Return the groups of which all pods fit now, and single pods, but that wait nevertheless.

        Without the joint check of fit, gangs that evicted pods in vain stay nominated, and keep others off.
        """
        free, used = self.free(), self.used()
        if not self.coscheduling.get("preemptionJointFit"):
            for pod in await self.pods():
                if not pod.spec.node_name and pod.status.nominated_node_name in free:
                    free[pod.status.nominated_node_name] -= cpus(pod)
        waiting: dict[tuple[str, ...], list[Pod]] = defaultdict(list)
        there: dict[str, int] = defaultdict(int)
        for pod in await self.pods():
            name = gang_name(pod)
            there[name] += 1
            if not pod.spec.node_name:
                waiting[self.group_of(name) or (name or pod.metadata.name,)].append(pod)
        found = []
        for group, pods in waiting.items():
            needs_gang = bool(gang_name(pods[0]))
            if needs_gang and not all(there[name] >= self.minimum.get(name, 1 << 30) for name in group):
                continue
            if self._fit(pods, free, used):
                found.append(f"{group}: {[pod.metadata.name for pod in pods]} fit: {free}, {used}")
        return found

    def limit_of(self, name: str) -> int:
        """Return what a quota may use in thousandths of a CPU."""
        return self.limits[name]

    def _fit(self, pods: Sequence[Pod], free: Mapping[str, int], used: Mapping[str, int]) -> bool:
        """Place pods, the largest first; return whether all fit."""
        left, wanted = dict(free), defaultdict(int, used)
        for pod in sorted(pods, key=cpus, reverse=True):
            name = pod.metadata.labels.get(f"{QUOTA}name", "")
            while name:
                wanted[name] += cpus(pod)
                if wanted[name] > self.limit_of(name):
                    return False
                name = self.parent.get(name, "")
            best = max(left, key=lambda node: left[node], default="")
            if not best or left[best] < cpus(pod):
                return False
            left[best] -= cpus(pod)
        return True

    async def nothing_is_left(self) -> None:
        """Delete everything; koordpy remembers none of it."""
        for pod in await self.pods():
            await self.remove_pod(pod.metadata.name)
        for group in await self.client.list_all(PodGroup, NAMESPACE):
            await self.client.delete(PodGroup, NAMESPACE, group.metadata.name)
        await asyncio.sleep(FORGOTTEN)
        self.binds_now()
        assert not self.binds
        await self.ask("filter", {"Pod": self.documents[0], "NodeNames": ["n9"]})
        assert leftovers(self.extender) == []
        assert not self.plugin(Coscheduling).cache.gangs
        assert not len(self.extender.tentative)
        expected = await rebuilt(self.profiles, self.client, self.clock)
        settle_states(self.extender.handle.cluster)
        assert differences(memory(self.extender), expected) == []
