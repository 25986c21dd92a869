"""The life of one PodMigrationJob: `koordpy_plugins.descheduling.migrationcontroller.reconciler`.

The reconciler writes to an API server that only stores, so that objects which a real one would reject can be
used, and that shows every write to the reconciler's stores at once.
"""

import asyncio
import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from koordpy.api import json_merge
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject, parse_time
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError
from koordpy.controllers.reconcile import ReconcileError
from koordpy.lib import duration
from koordpy.lib.clock import FakeClock
from koordpy.lib.http1 import Response
from koordpy_plugins.descheduling.migrationcontroller.args import MigrationControllerArgs
from koordpy_plugins.descheduling.migrationcontroller.evictions import EvictionFailed
from koordpy_plugins.descheduling.migrationcontroller.reconciler import Reconciler

Document = dict[str, Any]

_RUNNER = asyncio.Runner()

_KINDS: Mapping[str, type[KubeObject]] = {
    resource_of(type_).plural: type_ for type_ in (Pod, PodMigrationJob, Reservation)
}

_WHOLE = ("reservationCreated", "reservationUpdated")


class Server:
    """Stores objects, and is the channel to them."""

    server = "in-process"

    def __init__(self, cluster: Cluster) -> None:
        self._stores = {plural: cluster.store(type_) for plural, type_ in _KINDS.items()}
        self.objects: dict[str, dict[str, Document]] = {plural: {} for plural in _KINDS}
        self._version = 0
        self.create_fails = False
        self.written: Document = {}
        """What happened to Reservations in the current round."""

    def put(self, plural: str, document: Document) -> Document:
        """Store an object."""
        self._version += 1
        document = deepcopy(document)
        document["metadata"]["resourceVersion"] = str(self._version)
        metadata = document["metadata"]
        self.objects[plural][_key(metadata.get("namespace", ""), metadata["name"])] = document
        self._stores[plural].put(decode(_KINDS[plural], json.dumps(document).encode()))
        return document

    def drop(self, plural: str, key: str) -> None:
        """Remove an object."""
        if self.objects[plural].pop(key, None) is not None:
            self._stores[plural].discard(key)

    async def request(
        self, method: str, path: str, *, body: bytes = b"", content_type: str = "", timeout: float = 30.0
    ) -> Response:
        """Answer a request."""
        status, document = self._answer(method, path.partition("?")[0], json.loads(body or b"null"))
        return Response(status, [], json.dumps(document).encode())

    async def close(self) -> None:
        """Nothing is open."""

    def _answer(self, method: str, path: str, body: Any) -> tuple[int, Document]:
        parts = path.split("/")
        plural = next(part for part in parts if part in _KINDS)
        rest = parts[parts.index(plural) + 1 :]
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        if method == "POST":
            return self._create(plural, namespace, body)
        found = self.objects[plural].get(_key(namespace, rest[0]))
        if found is None:
            group = resource_of(_KINDS[plural]).group
            what = f"{plural}.{group}" if group else plural
            return _failure(404, "NotFound", f'{what} "{rest[0]}" not found')
        if method == "GET":
            return 200, found
        if method == "DELETE":
            self.drop(plural, _key(namespace, rest[0]))
            self.written["reservationDeleted"] = rest[0]
            return 200, {}
        assert method == "PATCH"
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, found["metadata"]["resourceVersion"]):
            return _failure(409, "Conflict", "the object has been modified")
        changed = json_merge.apply(found, body)
        if rest[1:] == ["status"]:
            changed = {**found, "status": changed.get("status", {})}
        elif "status" in found:
            changed["status"] = found["status"]
        stored = self.put(plural, changed)
        if plural == "reservations":
            self.written["reservationUpdated"] = stored
        return 200, stored

    def _create(self, plural: str, namespace: str, body: Document) -> tuple[int, Document]:
        if self.create_fails:
            return _failure(422, "Invalid", "creation refused")
        if _key(namespace, body["metadata"]["name"]) in self.objects[plural]:
            return _failure(409, "AlreadyExists", "already exists")
        stored = self.put(plural, {key: value for key, value in body.items() if key != "status"})
        self.written["reservationCreated"] = stored
        return 201, stored


class Evictions:
    """Evicts, or fails, as the round says, and keeps the calls."""

    def __init__(self) -> None:
        self.fails = False
        self.calls: list[Document] = []

    def admit(self) -> None:
        """Allow any number of evictions."""

    def is_requested(self, job: PodMigrationJob, pod: Pod) -> bool:
        """Know only from the job."""
        return False

    async def failure(self, job: PodMigrationJob, pod: Pod) -> str | None:
        """No pod refuses."""
        return None

    async def evict(self, job: PodMigrationJob, pod: Pod, options: Mapping[str, Any] | None) -> None:
        """Evict a pod."""
        call = {"pod": pod.metadata.key, "uid": pod.metadata.uid, "ok": not self.fails}
        self.calls.append({**call, "deleteOptions": options})
        if self.fails:
            raise EvictionFailed("eviction refused")


class NoLimit:
    """The object limiter of a configuration that limits nothing."""

    def exceeded(self, pod: Pod) -> bool:
        return False

    def track(self, pod: Pod) -> None:
        """Count nothing."""


class Events:
    """Keeps the events of a round."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def event(self, regarding: KubeObject, type_: str, reason: str, note: str, *, action: str = "") -> None:
        """Keep an event."""
        assert isinstance(regarding, PodMigrationJob)
        self.seen.append([type_, reason, note])


def run(case: Document, tag: str | None) -> Document:
    return _RUNNER.run(_run(case))


async def _run(case: Document) -> Document:
    clock = FakeClock(parse_time(case["now"]))
    cluster = Cluster(clock)
    server = Server(cluster)
    args = MigrationControllerArgs.model_validate(case["args"])
    evictions, events = Evictions(), Events()
    reconciler = Reconciler(
        cluster,
        Client(server, attempts=1),  # type: ignore[arg-type]
        events,
        clock,
        evictor=evictions,
        limiter=NoLimit(),
        identity="me",
        default_mode=args.default_job_mode,
        default_delete_options=args.default_deletion,
    )
    job = server.put("podmigrationjobs", case["job"])["metadata"]["name"]
    for pod in case["pods"]:
        server.put("pods", pod)
    if "reservation" in case:
        server.put("reservations", case["reservation"])
    rounds = []
    for change in case["rounds"]:
        clock.advance(change["after"])
        _apply(server, change)
        evictions.fails, evictions.calls = bool(change.get("evictFails")), []
        events.seen, server.written = [], {}
        server.create_fails = bool(change.get("createFails"))
        result: Document = {}
        try:
            result["requeueAfter"] = await reconciler.reconcile(job)
        except ApiError as error:
            result["error"] = error.message
        except ReconcileError as error:
            result["error"] = str(error)
        stored = server.objects["podmigrationjobs"][job]
        result |= {"events": events.seen, "evict": evictions.calls, **server.written}
        result |= {"spec": stored["spec"], "status": stored.get("status", {})}
        rounds.append(_shown(result))
    return {"rounds": rounds}


def _apply(server: Server, change: Document) -> None:
    if "deletePod" in change:
        server.drop("pods", f"a/{change['deletePod']}")
    for key in ("pod", "otherPod"):
        if key in change:
            metadata = change[key]["metadata"]
            server.drop("pods", _key(metadata["namespace"], metadata["name"]))
            server.put("pods", change[key])
    if change.get("deleteReservation"):
        for name in list(server.objects["reservations"]):
            server.drop("reservations", name)
    if "reservationStatus" in change:
        for document in list(server.objects["reservations"].values()):
            server.put("reservations", {**document, "status": change["reservationStatus"]})
    if "paused" in change:
        for document in list(server.objects["podmigrationjobs"].values()):
            server.put(
                "podmigrationjobs", {**document, "spec": {**document["spec"], "paused": change["paused"]}}
            )


def _shown(result: Document) -> Document:
    """Return a round's result as Go's structs would be encoded."""
    shown = _pruned(result)
    assert isinstance(shown, dict)
    for key in ("events", "evict"):
        if not shown[key]:
            del shown[key]
    spec = shown["spec"]
    if not spec.get("paused"):
        spec.pop("paused", None)
    options = spec.get("reservationOptions", {})
    options.pop("template", None)
    for key in ("kind", "apiVersion"):
        options.get("reservationRef", {}).pop(key, None)
    for key in _WHOLE:
        if key in shown:
            for part in ("status", "kind", "apiVersion"):
                shown[key].pop(part, None)
            for owner in shown[key]["spec"].get("owners") or ():
                if "controller" in owner:
                    fields = ("apiVersion", "kind", "name", "uid")
                    owner["controller"] = dict.fromkeys(fields, "") | owner["controller"]
    for written in (spec, *(shown[key]["spec"] for key in _WHOLE if key in shown)):
        if "ttl" in written:
            written["ttl"] = duration.format(duration.parse(written["ttl"]))
    return shown


def _pruned(value: Any) -> Any:
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    if not isinstance(value, dict):
        return value
    pairs = {key: _pruned(item) for key, item in value.items() if key != "resourceVersion"}
    return {key: item for key, item in pairs.items() if item is not None and item != {}}


def _failure(status: int, reason: str, message: str) -> tuple[int, Document]:
    return status, {"kind": "Status", "code": status, "reason": reason, "message": message}


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
