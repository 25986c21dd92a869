"""Metrics in Prometheus' text format, on koord-manager's paths.

`/metrics` and `/all-metrics` have everything, `/internal-metrics` what Koordinator's dashboards query.
Koordinator reserves `/external-metrics` for metrics for a cluster's users; its webhooks have none. Source:
Koordinator, `pkg/util/metrics/koordmanager`.
"""

from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from koordpy.lib.exposition import CONTENT_TYPE, written_aside

ALL: Final = ("",)

PATHS: Final = {
    "/metrics": ALL,
    "/all-metrics": ALL,
    "/internal-metrics": ("koord_manager_", "koordinator_manager_", "slo_controller_"),
    "/external-metrics": (),
}
"""Prefixes of the names of the metrics of each path."""


def router() -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    def add(path: str, prefixes: tuple[str, ...]) -> None:
        async def metrics() -> Response:
            return Response(await written_aside(prefixes), media_type=CONTENT_TYPE)

        routes.add_api_route(path, metrics, methods=["GET"], include_in_schema=False)

    for path, prefixes in PATHS.items():
        add(path, prefixes)
    return routes
