"""What the process counts, in Prometheus' text format, on the paths that koord-manager has.

`/metrics` and `/all-metrics` have everything, `/internal-metrics` what Koordinator's dashboards look for.
Koordinator keeps `/external-metrics` for what is meant for a cluster's users, and its webhooks have nothing
there. Source: Koordinator, `pkg/util/metrics/koordmanager`.
"""

from collections.abc import Iterator
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

EVERYTHING: Final = ("",)

PATHS: Final = {
    "/metrics": EVERYTHING,
    "/all-metrics": EVERYTHING,
    "/internal-metrics": ("koord_manager_", "koordinator_manager_"),
    "/external-metrics": (),
}
"""What the names of a path's metrics begin with."""


class _Part(Collector):
    """The metrics whose names begin so."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def collect(self) -> Iterator[Metric]:
        return (metric for metric in REGISTRY.collect() if metric.name.startswith(self._prefixes))


def router() -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    def add(path: str, prefixes: tuple[str, ...]) -> None:
        async def metrics() -> Response:
            text = generate_latest(_Part(prefixes))
            return Response(text, media_type=CONTENT_TYPE_LATEST)

        routes.add_api_route(path, metrics, methods=["GET"], include_in_schema=False)

    for path, prefixes in PATHS.items():
        add(path, prefixes)
    return routes
