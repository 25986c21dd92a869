"""The debug door: what this process knows, is configured to do, and has decided. Read-only.

Routes are coroutines, though none of them waits: so they run on the event loop, which owns what they show,
and never see it half changed.

Paths and formats that Koordinator has are Koordinator's (`pkg/scheduler/frameworkext/services`).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import BaseModel
from starlette.routing import compile_path

from koordpy.admission.chain import Chain
from koordpy.admission.quota.topology import QuotaTopology
from koordpy.cluster.columns import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.decisions import DecisionModel, Decisions
from koordpy.scheduling.interface import APIService
from koordpy.scheduling.registry import Profiles

from . import metrics, pprof


@dataclass
class Sources:
    """What the debug door shows. Parts of doors that are closed are empty."""

    nodes: NodeTable | None = None
    chains: Mapping[str, Chain] = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)
    decisions: Decisions | None = None
    configz: Mapping[str, Any] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    quotas: QuotaTopology | None = None


class AdmissionModel(BaseModel):
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
    routes = APIRouter()
    routes.include_router(metrics.router())
    routes.include_router(pprof.router())

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
        paths: set[str] = set(_plugin_endpoints(sources.profiles))
        for path in request.app.openapi()["paths"]:
            paths.add(path)
        return {"GET": sorted(paths)}

    @routes.get("/apis/v1/nodes/{node_name}")
    async def node(node_name: str) -> Response:
        return _json(_node_dump(_followed(sources), node_name))

    @routes.get("/apis/v1/decisions")
    async def decisions(limit: Annotated[int, Query(ge=1, le=10_000)] = 50) -> list[DecisionModel]:
        return [] if sources.decisions is None else sources.decisions.recent(limit)

    @routes.get("/apis/v1/decisions/{namespace}/{pod}")
    async def decisions_of(namespace: str, pod: str) -> list[DecisionModel]:
        found = [] if sources.decisions is None else sources.decisions.of(namespace, pod)
        if not found:
            reason = "the extender door is closed" if sources.decisions is None else "none is remembered"
            raise HTTPException(404, f"no scheduling decision about pod {namespace}/{pod}: {reason}")
        return found

    @routes.get("/apis/v1/admissions")
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
            path, _plugin_route(endpoint), methods=["GET"], openapi_extra={"parameters": _parameters(path)}
        )
    return routes


def _plugin_endpoints(profiles: Profiles) -> dict[str, Callable[..., object]]:
    """Return the REST faces of plugins; where two profiles have a plugin, the first one's counts."""
    found: dict[str, Callable[..., object]] = {}
    for framework in profiles.frameworks.values():
        for plugin in framework.plugins:
            if isinstance(plugin, APIService):
                for template, endpoint in plugin.endpoints().items():
                    path = f"/apis/v1/plugins/{plugin.name}/{template.strip('/')}"
                    found.setdefault(path, endpoint)
    return found


def _plugin_route(endpoint: Callable[..., object]) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        try:
            return _json(endpoint(**request.path_params))
        except LookupError as error:
            raise HTTPException(404, str(error.args[0]) if error.args else "not found") from None

    return route


def _parameters(path: str) -> list[dict[str, Any]]:
    """Describe the parameters in a path's template for the OpenAPI document."""
    names = compile_path(path)[2]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _followed(sources: Sources) -> NodeTable:
    if sources.nodes is None:
        raise HTTPException(404, "nodes are not followed: the extender door is closed")
    return sources.nodes


def _json(value: object) -> Response:
    def plain(other: object) -> object:
        if isinstance(other, BaseModel):
            return other.model_dump(mode="json", by_alias=True)
        if hasattr(other, "tolist"):  # NumPy scalars and arrays
            return other.tolist()
        raise TypeError(f"{type(other).__name__} cannot be shown as JSON")

    return Response(msgspec.json.encode(value, enc_hook=plain), media_type="application/json")


def _node_dump(nodes: NodeTable, name: str) -> dict[str, Any]:
    row = nodes.row_of(name)
    if row is None or nodes.node(row) is None:
        raise HTTPException(404, f"cannot find node {name}")
    pods = list(nodes.pods_on(row))
    affine = [pod for pod in pods if pod.spec.affinity is not None and pod.spec.affinity.pod_affinity]
    averse = [
        pod
        for pod in pods
        if pod.spec.affinity is not None
        and pod.spec.affinity.pod_anti_affinity is not None
        and pod.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    ]
    ports: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        for container in pod.spec.containers:
            for port in container.ports:
                if port.host_port > 0:
                    entry = {"Protocol": port.protocol or "TCP", "Port": port.host_port}
                    ports.setdefault(port.host_ip or "0.0.0.0", []).append(entry)
    node = nodes.node(row)
    allocatable, requested = nodes.allocatable[row].tolist(), nodes.requested[row].tolist()
    nonzero = nodes.nonzero_requested[row].tolist()
    remaining = [offered - taken for offered, taken in zip(allocatable, requested, strict=True)]
    return {
        "node": node,
        "pods": pods,
        "podsWithAffinity": affine,
        "podsWithRequiredAntiAffinity": averse,
        "usedPorts": ports,
        "requested": _resource(nodes, requested),
        "nonZeroRequested": {"MilliCPU": nonzero[0], "Memory": nonzero[1]},
        "remaining": _resource(nodes, remaining),
        "allocatable": _resource(nodes, allocatable),
        "imageStates": {
            name: image.size_bytes for image in (node.status.images if node else []) for name in image.names
        },
        "pvcRefCounts": _claims(pods),
        "generation": int(nodes.generation[row]),
    }


def _resource(nodes: NodeTable, amounts: list[int]) -> dict[str, Any]:
    """Return amounts in the shape of the scheduler's Resource."""
    names = nodes.resources.names
    return {
        "MilliCPU": amounts[CPU],
        "Memory": amounts[MEMORY],
        "EphemeralStorage": amounts[EPHEMERAL_STORAGE],
        "AllowedPodNumber": amounts[PODS],
        "ScalarResources": {names[i]: amounts[i] for i in range(PODS + 1, len(amounts)) if amounts[i]},
    }


def _claims(pods: list[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for pod in pods:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                key = f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
                counts[key] = counts.get(key, 0) + 1
    return counts
