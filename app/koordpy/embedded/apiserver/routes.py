"""Routes requests by URL and method."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import errors
from .attributes import Attributes, attributes
from .catalog import Catalog, Served
from .discovery import Discovery
from .turns import Turns
from .verbs import containers
from .verbs.binding import Binder
from .verbs.deleting import Deleter
from .verbs.reading import Position, Reader
from .verbs.reviews import Reviews
from .verbs.scaling import Scaler
from .verbs.selection import selection_of
from .verbs.tokens import Tokens
from .verbs.watching import Watcher
from .verbs.writing import Writer
from .wire import Answer, Request, Response

Handle = Callable[[Request, Attributes], Awaitable[Response]]

_HEALTH = frozenset(("/healthz", "/livez", "/readyz"))
_OPERATIONS = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "DELETE": "DELETE"}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a URL."""

    served: Served
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Router:
    """Dispatches requests."""

    def __init__(
        self,
        catalog: Catalog,
        discovery: Discovery,
        reader: Reader,
        watcher: Watcher,
        writer: Writer,
        deleter: Deleter,
        binder: Binder,
        evict: Handle,
        reviews: Reviews,
        scaler: Scaler,
        tokens: Tokens,
        problems: Callable[[], Mapping[str, str]],
    ) -> None:
        self._turns = Turns()
        self._problems = problems
        self._catalog = catalog
        self._discovery = discovery
        self._reader = reader
        self._watcher = watcher
        self._writer, self._deleter = writer, deleter
        self._binder = binder
        self._evict = evict
        self._reviews = reviews
        self._scaler = scaler
        self._tokens = tokens

    def route(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        """Answer a request. Raises ApiError."""
        path = request.path
        if path in _HEALTH or path.startswith(("/readyz/", "/livez/", "/healthz/")):
            return self._health(path)
        parts = path.strip("/").split("/")
        target = self._target(parts)
        if target is None:
            return self._discovery.answer(request, parts)
        if target.subresource in containers.SUBRESOURCES and request.method in ("GET", "POST"):
            return containers.answer(
                request, target.served, target.namespace, target.name, target.subresource
            )
        if request.method in ("GET", "HEAD"):
            return self._read(request, target)
        return self._write(request, target)

    def _health(self, path: str) -> Response:
        """Answer a health check; only readiness depends on anything."""
        problems = self._problems() if path.startswith("/readyz") else {}
        check = path.removeprefix("/readyz").strip("/")
        if check:
            problems = {name: problem for name, problem in problems.items() if name == check}
        text = "".join(f"[-]{name} failed: {problem}\n" for name, problem in problems.items())
        body = f"{text}readyz check failed\n" if text else "ok"
        return Response(body.encode(), 500 if text else 200, "text/plain; charset=utf-8")

    def _target(self, parts: list[str]) -> Target | None:
        """Return the target of a path, or None if it is not a resource's. Raises ApiError."""
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "watch":
            raise errors.unknown_path()
        if (
            rest[0] == "namespaces"
            and len(rest) > 2
            and not (group == "" and rest[2] in ("status", "finalize"))
        ):
            namespace, rest = rest[1], rest[2:]
        served = self._catalog.find(group, version, rest[0])
        if served is None or len(rest) > 3 or "" in rest:
            raise errors.unknown_path()
        if namespace and not served.namespaced:
            raise errors.unknown_path()
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if subresource and not served.has(subresource):
            raise errors.unknown_path()
        if name and served.namespaced and not namespace:
            raise errors.unknown_path()
        return Target(served, namespace, name, subresource)

    def _read(self, request: Request, target: Target) -> Answer | Coroutine[Any, Any, Answer]:
        served = target.served
        if "get" not in served.verbs:
            raise errors.method_not_allowed()
        watching = request.flag("watch")
        if watching and "watch" not in served.verbs:
            raise errors.method_not_allowed()
        if target.subresource == "scale":
            return self._scaler.handle(
                request, attributes(request, "GET", served, target.namespace, target.name)
            )
        if target.name and not watching:
            if target.subresource and not any(
                item.name == target.subresource and "get" in item.verbs for item in served.subresources
            ):
                raise errors.method_not_allowed()
            return self._reader.one(request, served, target.namespace, target.name)
        if target.name:
            raise errors.bad_request("watch of one object: use fieldSelector=metadata.name=NAME")
        answer = self._watcher.watch if watching else self._reader.many
        if self._turns.needs_one(served.table):
            return self._turns.take(partial(answer, request, served, target.namespace))
        return answer(request, served, target.namespace)

    def _write(self, request: Request, target: Target) -> Coroutine[Any, Any, Answer]:
        served, method = target.served, request.method
        operation = _OPERATIONS.get(method)
        if operation is None or "create" not in served.verbs:
            raise errors.method_not_allowed()
        if target.subresource:
            return self._write_subresource(request, target, operation)
        if method == "POST":
            return self._post(request, target)
        if len(served.verbs) == 1:
            raise errors.method_not_allowed()
        if not target.name:
            if method != "DELETE" or "deletecollection" not in served.verbs:
                raise errors.method_not_allowed()
            selection = selection_of(request, served, target.namespace)
            records, _ = self._reader.select(served, selection, Position())
            attrs = attributes(request, operation, served, target.namespace, "")
            return self._deleter.delete_collection(request, attrs, records)
        attrs = attributes(request, operation, served, target.namespace, target.name)
        writer = self._writer
        handle = {"PUT": writer.update, "PATCH": writer.patch, "DELETE": self._deleter.delete}[method]
        return handle(request, attrs)

    def _post(self, request: Request, target: Target) -> Coroutine[Any, Any, Answer]:
        served = target.served
        if target.name or (served.namespaced and not target.namespace):
            raise errors.method_not_allowed()
        attrs = attributes(request, "CREATE", served, target.namespace, "")
        if served.verbs == ("create",):
            if served.kind == "Binding":
                return self._binder.bind(request, attrs)
            return self._reviews.create(request, attrs)
        return self._writer.create(request, attrs)

    def _write_subresource(
        self, request: Request, target: Target, operation: str
    ) -> Coroutine[Any, Any, Answer]:
        served, name = target.served, target.subresource
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]
        if not any(item.name == name and verb in item.verbs for item in served.subresources):
            raise errors.method_not_allowed()
        attrs = attributes(request, operation, served, target.namespace, target.name, name)
        if name == "scale":
            return self._scaler.handle(request, attrs)
        if name == "token":
            return self._tokens.create(request, attrs)
        if name == "binding":
            return self._binder.bind(request, attrs)
        if name == "eviction":
            return self._evict_pod(request, attrs)
        if verb == "patch":
            return self._writer.patch(request, attrs)
        return self._writer.update(request, attrs)

    async def _evict_pod(self, request: Request, attrs: Attributes) -> Answer:
        return await self._evict(request, attrs)
