"""The server: composes the parts, listens, and stops cleanly."""

import asyncio
import logging
import random
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.http1 import Connect

from . import catalog as catalog_
from . import controllers, snapshots
from .admission.admission import Admission
from .admission.webhooks import ResolveService, WebhookCaller
from .attributes import Attributes
from .catalog import Catalog, Served
from .connections import Connections, Limits
from .discovery import Discovery
from .errors import ApiError, bad_request, internal
from .kinds import namespaces, priority
from .kinds import smaller as kinds
from .kinds.crds import Definitions
from .listener import Listener
from .resource_metrics import ResourceMetrics
from .routes import Router
from .storage import HISTORY_BYTES, Revisions, Table, TooLarge
from .verbs.binding import Binder
from .verbs.deleting import Deleter
from .verbs.eviction import Evictor
from .verbs.reading import Reader
from .verbs.reviews import IsAllowed, Reviews
from .verbs.scaling import Scaler
from .verbs.tokens import Tokens
from .verbs.watching import Watcher
from .verbs.writing import Writer
from .wire import Answer, Cut, Request, Response, Stream

log = logging.getLogger(__name__)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault injected into a request: wait, then answer with a status, or cut the connection.

    `delay` is in seconds; `held` is also awaited. With neither `status` nor `cut` the request is answered
    normally after that; `after` cuts the connection or answers `status` after the request was executed.
    """

    delay: float = 0.0
    held: asyncio.Event | None = None
    status: int = 0
    cut: bool = False
    after: bool = False
    retry_after: int = 0


Faults = Callable[[str, str], Fault | None]


class ApiServer:
    """An API server in this process, on a loopback port.

    `crds` are CustomResourceDefinitions (files, folders or documents) that are served from the start.
    `snapshot` is a file that the objects are loaded from and saved to. `window` is how many events of a
    resource are kept for watches and old lists. `controllers` runs functions of kube-controller-manager:
    status of PodDisruptionBudgets, emptying of terminating namespaces, garbage collection. `metrics` serves
    metrics.k8s.io, from NodeMetrics. `faults(method, path)` is called before every request and returns its
    fault. `resolve_service(namespace, name, port)`
    returns the (host, port) of a webhook's service. `tokens` are the bearer tokens that a TokenReview
    accepts, `is_allowed(spec)` is the result of access reviews (by default true). `connect` replaces the
    network for calls of webhooks. `limits` bound what clients may hold, `storage_bytes`
    the objects (by default not at all), `history_bytes` the events that are kept.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        crds: Iterable[str | Path | Document] = (),
        snapshot: str | Path | None = None,
        clock: Clock | None = None,
        *,
        rng: random.Random | None = None,
        window: int = 20_000,
        controllers: bool = False,
        metrics: bool = False,
        default_tolerations: bool = True,
        snapshot_interval: float = 60.0,
        faults: Faults | None = None,
        resolve_service: ResolveService | Mapping[tuple[str, str], tuple[str, int]] | None = None,
        tokens: Mapping[str, Document] | None = None,
        connect: Connect | None = None,
        is_allowed: IsAllowed | None = None,
        limits: Limits | None = None,
        storage_bytes: int | None = None,
        history_bytes: int = HISTORY_BYTES,
    ) -> None:
        self.host = host
        self.port = port
        self.faults = faults
        self.clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._window = window
        self._listener: Listener | None = None
        self.connections = Connections(limits)
        self._background: list[asyncio.Task[None]] = []
        self._revisions = Revisions(history_bytes, storage_bytes)
        self.catalog = Catalog()
        self._saver = (
            snapshots.Saver(Path(snapshot), self.catalog, self._revisions, snapshot_interval)
            if snapshot
            else None
        )
        self._add_built_in()
        if metrics:
            ResourceMetrics(self.catalog).serve(self._revisions)
        self.webhooks = WebhookCaller(self.catalog, resolve_service, connect)
        admission = Admission(self.catalog, self.webhooks, default_tolerations)
        self._reader = Reader(self.clock)
        self._watcher = Watcher(self._reader, self.clock, self._rng)
        self._writer = Writer(admission, self.clock, self._rng)
        self._deleter = Deleter(admission, self.clock)
        self._definitions = Definitions(self.catalog, self._table, self._watcher.end_those_of, self.clock)
        pods = self._served("", "pods")
        accounts = self._served("", "serviceaccounts")
        self._tokens = Tokens(accounts, tokens or {}, self.clock, secrets.token_bytes(32))
        self._router = Router(
            self.catalog,
            Discovery(self.catalog),
            self._reader,
            self._watcher,
            self._writer,
            self._deleter,
            Binder(pods, admission, self.clock),
            Evictor(self.catalog, self._deleter, admission, self.clock).evict,
            Reviews(self._tokens, is_allowed, self.clock),
            Scaler(self._writer),
            self._tokens,
            self._problems,
        )
        self._controllers = controllers_for(self) if controllers else []
        self._crds = list(crds)
        self._loaded = False

    # life

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://{self.host}:{self.port}"

    async def load(self) -> None:
        """Load the snapshot and definitions: enough for requests from this process, by `handle`."""
        if self._loaded:
            return
        self._loaded = True
        if self._saver is not None and self._saver.path.exists():
            snapshots.load(self._saver.path, self.catalog, self._revisions, self._definitions)
            self.webhooks.reload()
        await self._seed()

    async def start(self) -> None:
        """Load the snapshot and definitions, and listen. Raises OSError if the port is in use."""
        if self._listener is not None:
            return
        await self.load()
        listener = Listener(self.handle, self.connections)
        self.port = await listener.start(self.host, self.port)
        self._listener = listener
        for controller in self._controllers:
            self._background.append(asyncio.create_task(controller.run()))
        if self._saver is not None:
            self._background.append(asyncio.create_task(self._saver.run()))

    async def stop(self) -> None:
        """End all watches, close all connections, save the snapshot. The server can be started again."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        listener.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._background.clear()
        self._watcher.end_all()
        listener.close_connections()
        await self.webhooks.close()
        self.save()
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @classmethod
    @contextmanager
    def in_thread(cls, *args: Any, **options: Any) -> Iterator[Self]:
        """Run a server on a separate thread and event loop, for blocking callers."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="embedded API server", daemon=True)
        thread.start()
        try:
            server = cls(*args, **options)
            asyncio.run_coroutine_threadsafe(server.start(), loop).result()
            try:
                yield server
            finally:
                asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def compact(self) -> None:
        """Discard the history of all resources: older resource versions are answered with 410."""
        for table in self._tables():
            table.compact()

    def save(self) -> None:
        """Write the snapshot file, atomically. A failure is logged, and fails `/readyz`."""
        if self._saver is not None:
            self._saver.save()

    def cut_watches(self) -> None:
        """Drop the connections of all open watches, as a network failure would."""
        self._watcher.cut_all()

    # parts

    def _table(self, fields_of: Callable[[Document], Mapping[str, str]]) -> Table:
        return Table(self._revisions, fields_of, self._window)

    def _tables(self) -> list[Table]:
        return list({id(served.table): served.table for served in self.catalog if served.stored}.values())

    def _served(self, group: str, plural: str) -> Served:
        served = self.catalog.storage_of(group, plural)
        if served is None:
            raise LookupError(f"{plural} are not served")
        return served

    def _add_built_in(self) -> None:
        for served in catalog_.built_in():
            served.strategy = kinds.of(served.group, served.kind, served.version)
            shared = catalog_.STORED_AS.get((served.group, served.version, served.plural))
            if shared is not None:
                served.table = self._served(*shared).table
            else:
                served.table = self._table(served.strategy.fields)
            self.catalog.add(served)

    async def _seed(self) -> None:
        """Create missing objects that every cluster has, and the given CustomResourceDefinitions."""
        for name in namespaces.SYSTEM:
            await self._ensure(self._served("", "namespaces"), {"metadata": {"name": name}})
        for name, value, description in priority.SYSTEM_CLASSES:
            document = {"metadata": {"name": name}, "value": value, "description": description}
            await self._ensure(self._served("scheduling.k8s.io", "priorityclasses"), document)
        for document in self._definitions.read(self._crds):
            document.pop("kind", None)
            document.pop("apiVersion", None)
            await self._ensure(self._served("apiextensions.k8s.io", "customresourcedefinitions"), document)

    async def _ensure(self, served: Served, document: Document) -> None:
        if served.table.get(document["metadata"]["name"]) is None:
            document = served.strategy.read(served, document, [])
            await self._writer.store_new(Attributes("CREATE", served, "", ""), document)

    def _problems(self) -> dict[str, str]:
        """Return what makes the server not ready, by the name of the check."""
        problem = self._saver.problem if self._saver is not None else ""
        return {"snapshot": f"not written: {problem}"} if problem else {}

    # requests

    def handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        """Answer a request, directly or by a coroutine. Errors become answers too."""
        if self.faults is not None:
            fault = self.faults(request.method, request.path)
            if fault is not None:
                return self._faulty(request, fault)
        try:
            answer = self._router.route(request)
        except Exception as error:
            return failure(request, error)
        if isinstance(answer, Response | Stream):
            return answer
        return self._finish(request, answer)

    @staticmethod
    async def _finish(request: Request, work: Any) -> Answer:
        try:
            answer: Answer = await work
        except Exception as error:
            return failure(request, error)
        return answer

    async def _faulty(self, request: Request, fault: Fault) -> Answer:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.held is not None:
            await fault.held.wait()
        wanted = fault.cut or fault.status
        answer: Answer | None = None
        if fault.after or not wanted:
            try:
                found = self._router.route(request)
            except Exception as error:
                found = failure(request, error)
            answer = found if isinstance(found, Response | Stream) else await self._finish(request, found)
        if fault.cut:
            raise Cut
        if fault.status:
            return refuse(_fault_error(fault))
        assert answer is not None
        return answer


def _fault_error(fault: Fault) -> ApiError:
    reasons = {
        409: "Conflict",
        410: "Expired",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServiceUnavailable",
        504: "Timeout",
    }
    reason = reasons.get(fault.status, "")
    return ApiError(fault.status, reason, f"injected fault {fault.status}", retry_after=fault.retry_after)


def refuse(error: ApiError) -> Response:
    """Return the answer for an error."""
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.body, error.code, headers=headers)


def failure(request: Request, error: Exception) -> Response:
    """Return the answer to a request that ended in an exception; an unexpected one is logged."""
    if isinstance(error, ApiError):
        return refuse(error)
    if isinstance(error, TooLarge):
        return refuse(ApiError(413, "RequestEntityTooLarge", str(error)))
    if isinstance(error, RecursionError):
        return refuse(bad_request("the document is nested too deeply"))
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return refuse(internal("the request could not be processed"))


def controllers_for(server: ApiServer) -> list[controllers.Controller]:
    """Return the controllers of a server."""
    return controllers.all_of(server.catalog, server._deleter, server.clock)
