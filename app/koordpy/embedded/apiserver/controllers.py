"""The kube-controller-manager functions that others rely on: budgets, namespace deletion, garbage collection.

Each controller reconciles stored objects after changes. They run only on request: by default an API server
has none.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from koordpy.api.meta import format_time
from koordpy.lib.clock import Clock

from .attributes import Attributes
from .catalog import Catalog, Served
from .errors import ApiError
from .storage import Event
from .verbs.deleting import Deleter
from .verbs.eviction import is_ready, selector_of

log = logging.getLogger(__name__)

Document = dict[str, Any]


class Controller(Protocol):
    """A loop that runs as long as the server."""

    async def run(self) -> None:
        """Run until cancelled."""


class _Queue:
    """Keys that wait to be reconciled, each once."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._wake = asyncio.Event()

    def add(self, key: str) -> None:
        self._keys[key] = None
        self._wake.set()

    async def take(self) -> list[str]:
        await self._wake.wait()
        self._wake.clear()
        keys = list(self._keys)
        self._keys.clear()
        return keys


def served_in(catalog: Catalog, group: str, plural: str) -> Served:
    """Return a built-in resource."""
    served = catalog.find(group, "v1", plural)
    if served is None:
        raise LookupError(f"{plural} are not served")
    return served


class DisruptionController:
    """Maintains the status of PodDisruptionBudgets: the numbers of healthy pods and of allowed disruptions.

    Source: Kubernetes, `pkg/controller/disruption`.
    """

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._pods = served_in(catalog, "", "pods")
        self._budgets = served_in(catalog, "policy", "poddisruptionbudgets")
        self._catalog = catalog
        self._clock = clock
        self._queue = _Queue()

    async def run(self) -> None:
        """Run until cancelled."""
        ends = [self._pods.table.subscribe(self._pod_changed), self._budgets.table.subscribe(self._changed)]
        try:
            for record in self._budgets.table:
                self._queue.add(record.key)
            while True:
                for key in await self._queue.take():
                    self._settle(key)
        finally:
            for end in ends:
                end()

    def _changed(self, event: Event) -> None:
        self._queue.add(event.record.key)

    def _pod_changed(self, event: Event) -> None:
        namespace = event.record.key.partition("/")[0]
        for key in self._budgets.table.range(namespace)[0]:
            self._queue.add(key)

    def _settle(self, key: str) -> None:
        record = self._budgets.table.get(key)
        if record is None:
            return
        budget = record.document()
        pods = self._pods_of(budget)
        now = self._clock.now()
        status = budget.get("status", {})
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        disrupted = {
            name: since
            for name, since in (status.get("disruptedPods") or {}).items()
            if name in by_name and "deletionTimestamp" not in by_name[name]["metadata"]
        }
        healthy = sum(
            is_ready(pod) and "deletionTimestamp" not in pod["metadata"] and name not in disrupted
            for name, pod in by_name.items()
        )
        expected, desired = self._wanted(budget["spec"], pods)
        allowed = max(healthy - desired, 0) if expected else 0
        wanted: Document = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": status.get("conditions") or [],
        }
        if disrupted:
            wanted["disruptedPods"] = disrupted
        if {k: v for k, v in status.items() if k != "conditions"} == {
            k: v for k, v in wanted.items() if k != "conditions"
        } and wanted["conditions"]:
            return
        wanted["conditions"] = [
            {
                "type": "DisruptionAllowed",
                "status": "True" if allowed else "False",
                "reason": "SufficientPods" if allowed else "InsufficientPods",
                "message": "",
                "observedGeneration": wanted["observedGeneration"],
                "lastTransitionTime": format_time(now),
            }
        ]
        budget["status"] = wanted
        self._budgets.table.put(key, budget)

    def _pods_of(self, budget: Document) -> list[Document]:
        table, selector = self._pods.table, selector_of(budget)
        found = []
        for key in table.range(budget["metadata"]["namespace"])[0]:
            record = table.get(key)
            if record is not None and selector.matches(record.labels):
                pod = record.document()
                if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                    found.append(pod)
        return found

    def _wanted(self, spec: Document, pods: list[Document]) -> tuple[int, int]:
        """Return how many pods there should be, and how many must be healthy."""
        if "maxUnavailable" in spec:
            expected = self._expected(pods)
            return expected, max(expected - _share(spec["maxUnavailable"], expected), 0)
        least = spec.get("minAvailable", 0)
        if isinstance(least, int):
            return len(pods), least
        expected = self._expected(pods)
        return expected, _share(least, expected)

    def _expected(self, pods: list[Document]) -> int:
        """Add up the replicas of the controllers that the pods belong to."""
        replicas: dict[str, int] = {}
        for pod in pods:
            owner = next((o for o in pod["metadata"].get("ownerReferences", []) if o.get("controller")), None)
            if owner is None:
                continue
            replicas.setdefault(owner["uid"], self._replicas(owner, pod["metadata"]["namespace"]))
        return sum(replicas.values())

    def _replicas(self, owner: Document, namespace: str) -> int:
        group = owner["apiVersion"].rpartition("/")[0]
        for served in self._catalog:
            if served.group == group and served.kind == owner["kind"] and served.stored:
                record = served.table.get(f"{namespace}/{owner['name']}")
                if record is not None and record.uid == owner["uid"]:
                    document = record.document()
                    if served.kind == "ReplicaSet":
                        parent = next(
                            (
                                o
                                for o in document["metadata"].get("ownerReferences", [])
                                if o.get("controller")
                            ),
                            None,
                        )
                        if parent is not None and parent["kind"] == "Deployment":
                            return self._replicas(parent, namespace)
                    count: int = document.get("spec", {}).get("replicas", 0)
                    return count
        return 0


def _share(amount: int | str, whole: int) -> int:
    """Read a count or a percentage of a whole, rounded up."""
    if isinstance(amount, int):
        return amount
    return -(-int(amount.rstrip("%")) * whole // 100)


class NamespaceController:
    """Empties terminating namespaces and finishes their deletion."""

    def __init__(self, catalog: Catalog, deleter: Deleter) -> None:
        self._catalog = catalog
        self._deleter = deleter
        self._namespaces = served_in(catalog, "", "namespaces")
        self._queue = _Queue()

    async def run(self) -> None:
        """Run until cancelled."""
        end = self._namespaces.table.subscribe(self._changed)
        try:
            for record in self._namespaces.table:
                self._queue.add(record.key)
            while True:
                for name in await self._queue.take():
                    await self._settle(name)
        finally:
            end()

    def _changed(self, event: Event) -> None:
        if event.type != "DELETED":
            self._queue.add(event.record.key)

    async def _settle(self, name: str) -> None:
        record = self._namespaces.table.get(name)
        if record is None or b'"deletionTimestamp"' not in record.raw:
            return
        left = 0
        for served in list(self._catalog):
            if not served.namespaced or not served.stored:
                continue
            for key in served.table.range(name)[0]:
                try:
                    attrs = Attributes("DELETE", served, name, key.rpartition("/")[2])
                    _, gone = await self._deleter.remove(attrs, {"gracePeriodSeconds": 0})
                    left += not gone
                except ApiError as error:
                    left += error.code != 404
        if left:
            asyncio.get_running_loop().call_later(1.0, self._queue.add, name)
            return
        current = self._namespaces.table.get(name)
        if current is not None:
            document = current.document()
            document.get("spec", {}).pop("finalizers", None)
            if not document["metadata"].get("finalizers"):
                self._namespaces.table.remove(name, document)


class GarbageCollector:
    """Deletes objects all of whose owners are gone, and finishes foreground and orphaning deletions.

    Source: Kubernetes, `pkg/controller/garbagecollector`.
    """

    def __init__(self, catalog: Catalog, deleter: Deleter) -> None:
        self._catalog = catalog
        self._deleter = deleter
        self._queue = _Queue()
        self._dependents: dict[str, set[tuple[int, str]]] = {}
        self._tables: dict[int, tuple[Served, Callable[[], None]]] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self._follow_all()
                try:
                    uids = await asyncio.wait_for(self._queue.take(), 1.0)
                except TimeoutError:
                    continue
                for uid in uids:
                    await self._settle(uid)
        finally:
            for _, end in self._tables.values():
                end()
            self._tables.clear()

    def _follow_all(self) -> None:
        for served in list(self._catalog):
            number = id(served.table) if served.stored else 0
            if served.stored and number not in self._tables:
                end = served.table.subscribe(partial(self._changed, number))
                self._tables[number] = (served, end)
                for record in served.table:
                    self._changed(number, Event(record.revision, "ADDED", record, None))

    def _changed(self, number: int, event: Event) -> None:
        record = event.record
        place = (number, record.key)
        if b'"ownerReferences"' in record.raw:
            for owner in record.document()["metadata"].get("ownerReferences", []):
                if event.type == "DELETED":
                    self._dependents.get(owner["uid"], set()).discard(place)
                    self._queue.add(owner["uid"])
                else:
                    self._dependents.setdefault(owner["uid"], set()).add(place)
        if event.type == "DELETED" or b'"deletionTimestamp"' in record.raw:
            self._queue.add(record.uid)

    async def _settle(self, uid: str) -> None:
        owner = self._find(uid)
        waiting = owner[1].get("finalizers", []) if owner is not None else []
        if owner is not None and "orphan" in waiting:
            for number, key in list(self._dependents.get(uid, ())):
                self._disown(number, key, uid)
            self._release(owner[0], owner[2], "orphan")
            return
        if owner is not None and "foregroundDeletion" not in waiting:
            return
        left = 0
        for number, key in list(self._dependents.get(uid, ())):
            left += await self._collect(number, key, uid)
        if owner is not None and not left:
            self._release(owner[0], owner[2], "foregroundDeletion")
        if owner is None and not left:
            self._dependents.pop(uid, None)

    def _find(self, uid: str) -> tuple[Served, Document, str] | None:
        for served, _ in self._tables.values():
            for record in served.table.with_uid(uid):
                return served, record.document()["metadata"], record.key
        return None

    async def _collect(self, number: int, key: str, uid: str) -> bool:
        """Delete a dependent unless another owner is alive; return whether it still blocks the owner."""
        served = self._tables[number][0]
        record = served.table.get(key)
        if record is None:
            return False
        owners = record.document()["metadata"].get("ownerReferences", [])
        if not any(owner["uid"] == uid for owner in owners):
            return False
        if any(owner["uid"] != uid and self._find(owner["uid"]) is not None for owner in owners):
            self._disown(number, key, uid)
            return False
        namespace, _, name = key.rpartition("/")
        try:
            options = {"preconditions": {"uid": record.uid}, "propagationPolicy": "Background"}
            _, gone = await self._deleter.remove(Attributes("DELETE", served, namespace, name), options)
        except ApiError as error:
            return error.code != 404
        return not gone

    def _disown(self, number: int, key: str, uid: str) -> None:
        table = self._tables[number][0].table
        record = table.get(key)
        if record is None:
            return
        document = record.document()
        metadata = document["metadata"]
        metadata["ownerReferences"] = [o for o in metadata.get("ownerReferences", []) if o["uid"] != uid]
        if not metadata["ownerReferences"]:
            del metadata["ownerReferences"]
        table.put(key, document)
        self._dependents.get(uid, set()).discard((number, key))

    @staticmethod
    def _release(served: Served, key: str, finalizer: str) -> None:
        record = served.table.get(key)
        if record is None:
            return
        document = record.document()
        metadata = document["metadata"]
        metadata["finalizers"] = [f for f in metadata.get("finalizers", []) if f != finalizer]
        if metadata["finalizers"]:
            served.table.put(key, document)
        elif metadata.get("deletionGracePeriodSeconds"):
            del metadata["finalizers"]
            served.table.put(key, document)
        else:
            del metadata["finalizers"]
            served.table.remove(key, document)


def all_of(catalog: Catalog, deleter: Deleter, clock: Clock) -> list[Controller]:
    """Return all controllers."""
    return [
        DisruptionController(catalog, clock),
        NamespaceController(catalog, deleter),
        GarbageCollector(catalog, deleter),
    ]
