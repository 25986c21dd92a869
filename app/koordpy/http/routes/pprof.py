"""CPU profiles: `/debug/pprof/profile` for `go tool pprof`, and `.../stacks` as text."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse, Response

from koordpy.lib.profiling import (
    DISPOSITION,
    INDEX,
    LONGEST_SECONDS,
    Profiler,
    ProfilerBusyError,
    stacks,
)


def router() -> APIRouter:
    """Return the routes. Only one profile is taken at a time."""
    routes = APIRouter(prefix="/debug/pprof")
    profiler = Profiler()

    @routes.get("/profile", include_in_schema=False)
    async def profile(seconds: Annotated[float, Query(gt=0, le=LONGEST_SECONDS)] = 30) -> Response:
        try:
            content = await profiler.profile(seconds)
        except ProfilerBusyError as error:
            raise HTTPException(409, str(error)) from None
        return Response(content, media_type="application/octet-stream", headers=DISPOSITION)

    @routes.get("", include_in_schema=False)
    @routes.get("/", include_in_schema=False)
    async def index() -> PlainTextResponse:
        return PlainTextResponse(INDEX)

    @routes.get("/stacks", include_in_schema=False)
    async def all_stacks() -> PlainTextResponse:
        return PlainTextResponse(stacks())

    return routes
