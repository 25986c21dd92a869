"""The debug API: this process's state, configuration and decisions.

Nothing here changes the cluster or a decision; `/debug/flags` changes what is logged. Routes are coroutines,
though few of them await anything, because the state that they show is owned by the event loop: there they
never see it partially changed.

Paths and formats that Koordinator has are Koordinator's (`pkg/scheduler/frameworkext/services`).
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.routing import compile_path

from koordpy.admission.chain import Chain
from koordpy.api.core import PriorityClass
from koordpy.api.output_model import OutputModel, encoded
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.controllers.noderesource.explanation import NodeExplainer
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.scheduling.explain.decision_stream import DecisionStreams
from koordpy.scheduling.explain.decisions import Decisions
from koordpy.scheduling.interface import APIService
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.scheduling.profiles.profiles import Profiles

from . import colocation, decisions, descheduling, descheduling_what_if, flags, metrics, pprof, what_if
from .node_dump import node_dump
from .parameters import known_parameters
from .turns import Turns

API = "/apis/v1/"

_NOT_IN_SCHEMA = (
    "/debug/flags",
    "/debug/pprof/",
    "/livez",
    "/metrics",
    "/nodes/{node_name}",
    "/openapi.json",
    "/readyz",
)


@dataclass
class Sources:
    """The data of the debug API. Parts that this process does not serve are empty or None."""

    cluster: Cluster | None = None
    chains: Mapping[str, Chain] = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)
    decisions: Decisions | None = None
    streams: DecisionStreams | None = None
    flags: DebugFlags = field(default_factory=DebugFlags)
    is_ready: Callable[[], bool] = lambda: True
    configz: Mapping[str, Any] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    quotas: QuotaTopology | None = None
    descheduler: Descheduler | None = None
    descheduler_waiting: Callable[[], str] = str
    hypothetical_rounds: descheduling_what_if.WhatIf | None = None
    node_explainer: Callable[[], NodeExplainer | None] = lambda: None


class AdmissionModel(OutputModel):
    """One answered webhook request."""

    time: str
    path: str
    uid: str
    operation: str
    namespace: str
    name: str
    allowed: bool
    code: int
    message: str
    milliseconds: float
    patch: list[dict[str, Any]]


def router(sources: Sources) -> APIRouter:
    """Return all debug routes."""
    routes, turns = APIRouter(), Turns()
    routes.include_router(metrics.router())
    routes.include_router(pprof.router())
    routes.include_router(flags.router(sources.flags))
    routes.include_router(decisions.router(lambda: sources.decisions, lambda: sources.streams))
    routes.include_router(
        descheduling.router(lambda: sources.descheduler, lambda: sources.descheduler_waiting())
    )
    routes.include_router(
        descheduling_what_if.router(lambda: sources.hypothetical_rounds, lambda: sources.is_ready(), turns)
    )
    routes.include_router(what_if.router(lambda: _what_if_sources(sources), turns))
    routes.include_router(colocation.router(lambda: sources.node_explainer()))

    @routes.get("/", include_in_schema=False)
    async def index(request: Request) -> dict[str, list[str]]:
        """List the paths, as kube-apiserver does."""
        return {"paths": sorted({*request.app.openapi()["paths"], *_NOT_IN_SCHEMA})}

    @routes.get("/configz")
    async def configz() -> dict[str, Any]:
        return {**sources.configz, "featureGates": dict(sources.gates)}

    @routes.get("/elasticQuota")
    async def elastic_quota() -> dict[str, Any]:
        if sources.quotas is None:
            raise HTTPException(404, "quotas are not followed: their validating webhook is not served")
        return sources.quotas.document()

    @routes.get("/apis/v1/__services__")
    async def services(request: Request) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {"GET": set(_plugin_endpoints(sources.profiles))}
        for path, operations in request.app.openapi()["paths"].items():
            for method in operations if path.startswith(API) else ():
                found.setdefault(method.upper(), set()).add(path)
        return {method: sorted(map(_as_gin, paths)) for method, paths in sorted(found.items())}

    async def node(node_name: str) -> Response:
        if sources.cluster is None:
            raise HTTPException(404, "there is no node table: this process does not have the part extender")
        _check_ready(sources)
        try:
            return _json(node_dump(sources.cluster.nodes, node_name))
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from None

    routes.add_api_route("/apis/v1/nodes/{node_name}", node, methods=["GET"])
    routes.add_api_route("/nodes/{node_name}", node, methods=["GET"], include_in_schema=False)

    @routes.get("/apis/v1/admissions", dependencies=[Depends(known_parameters)])
    async def admissions(limit: Annotated[int, Query(ge=1, le=10_000)] = 50) -> list[AdmissionModel]:
        histories = {id(chain.history): chain.history for chain in sources.chains.values()}
        newest = sorted(
            (admission for history in histories.values() for admission in history),
            key=lambda admission: admission.time,
            reverse=True,
        )
        return [
            AdmissionModel(
                time=a.time.isoformat(),
                path=a.path,
                uid=a.uid,
                operation=a.operation,
                namespace=a.namespace,
                name=a.name,
                allowed=a.allowed,
                code=a.code,
                message=a.message,
                milliseconds=round(a.seconds * 1000, 3),
                patch=a.operations(),
            )
            for a in newest[:limit]
        ]

    for path, endpoint in _plugin_endpoints(sources.profiles).items():
        routes.add_api_route(
            path,
            _plugin_route(sources, path, endpoint),
            methods=["GET"],
            openapi_extra={"parameters": _parameters(path, endpoint)},
        )
    return routes


def _what_if_sources(sources: Sources) -> what_if.Sources | None:
    cluster = sources.cluster
    if cluster is None:
        return None

    def priority_of(name: str) -> int | None:
        for store in cluster.stores:
            if store.type is PriorityClass:
                known = store.get("", name)
                return None if known is None else int(known.value)
        return None

    return what_if.Sources(sources.profiles, cluster, sources.chains, sources.is_ready, priority_of)


def _check_ready(sources: Sources) -> None:
    """Raise 503 until the cluster has been listed, as Koordinator does while it starts."""
    if not sources.is_ready():
        raise HTTPException(503, "The component is initializing and temporarily unavailable")


def _as_gin(path: str) -> str:
    """Write a path's parameters as Koordinator does: `:nodeName` for `{node_name}`."""

    def camel(match: re.Match[str]) -> str:
        head, *rest = match[1].split("_")
        return f":{head}{''.join(word.title() for word in rest)}"

    return re.sub(r"\{(\w+)\}", camel, path)


def _plugin_endpoints(profiles: Profiles) -> dict[str, Callable[..., object]]:
    """Return the REST endpoints of plugins; if two profiles have a plugin, those of the first profile."""
    found: dict[str, Callable[..., object]] = {}
    for framework in profiles.frameworks.values():
        for plugin in framework.plugins:
            if isinstance(plugin, APIService):
                for template, endpoint in plugin.endpoints().items():
                    path = f"{API}plugins/{plugin.name}/{template.strip('/')}"
                    found.setdefault(path, endpoint)
    return found


def _plugin_route(
    sources: Sources, path: str, endpoint: Callable[..., object]
) -> Callable[[Request], Awaitable[Response]]:
    options = _options(path, endpoint)

    async def route(request: Request) -> Response:
        _check_ready(sources)
        given = {name: request.query_params[name] for name in options if name in request.query_params}
        try:
            return _json(endpoint(**request.path_params, **given))
        except LookupError as error:
            raise HTTPException(404, str(error.args[0]) if error.args else "not found") from None

    return route


def _options(path: str, endpoint: Callable[..., object]) -> list[str]:
    """Return the query parameters of an endpoint: those that are not in its path."""
    in_path = compile_path(path)[2]
    return [name for name in inspect.signature(endpoint).parameters if name not in in_path]


def _parameters(path: str, endpoint: Callable[..., object]) -> list[dict[str, Any]]:
    """Describe an endpoint's parameters for the OpenAPI document."""
    text = {"type": "string"}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in compile_path(path)[2]
    ]
    return [
        *in_path,
        *({"name": name, "in": "query", "schema": text} for name in _options(path, endpoint)),
    ]


def _json(value: object) -> Response:
    return Response(encoded(value), media_type="application/json")
