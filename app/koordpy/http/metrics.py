"""`/metrics`: everything that the process counts, in Prometheus' text format."""

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


def router() -> APIRouter:
    """Return the route."""
    routes = APIRouter()

    @routes.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return routes
