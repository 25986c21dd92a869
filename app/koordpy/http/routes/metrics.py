"""Metrics in Prometheus' text format, on koord-manager's paths.

`/metrics` and `/all-metrics` have everything, `/internal-metrics` what Koordinator's dashboards query.
Koordinator reserves `/external-metrics` for metrics for a cluster's users; its webhooks have none. Source:
Koordinator, `pkg/util/metrics/koordmanager`.
"""

from collections.abc import Iterator
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from koordpy.lib.cache_metrics import CacheMetrics

ALL: Final = ("",)

PATHS: Final = {
    "/metrics": ALL,
    "/all-metrics": ALL,
    "/internal-metrics": ("koord_manager_", "koordinator_manager_"),
    "/external-metrics": (),
}
"""Prefixes of the names of the metrics of each path."""


_CACHES: Final = CacheMetrics()


class _WithPrefix(Collector):
    """The metrics whose names have one of some prefixes."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def collect(self) -> Iterator[Metric]:
        return (metric for metric in REGISTRY.collect() if metric.name.startswith(self._prefixes))


def router() -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    def add(path: str, prefixes: tuple[str, ...]) -> None:
        async def metrics() -> Response:
            text = generate_latest(_WithPrefix(prefixes))
            return Response(text, media_type=CONTENT_TYPE_LATEST)

        routes.add_api_route(path, metrics, methods=["GET"], include_in_schema=False)

    for path, prefixes in PATHS.items():
        add(path, prefixes)
    return routes
