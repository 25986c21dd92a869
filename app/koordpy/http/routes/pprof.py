"""CPU profiles: `/debug/pprof/profile` for `go tool pprof`, and `.../stacks` as text."""

import asyncio
import time
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse, Response

from koordpy.lib.profiling import encode, sample, stacks

LONGEST_SECONDS: Final = 120


def router() -> APIRouter:
    """Return the routes. Only one profile is taken at a time."""
    routes = APIRouter(prefix="/debug/pprof")
    busy = asyncio.Lock()

    @routes.get("/profile", include_in_schema=False)
    async def profile(seconds: Annotated[float, Query(gt=0, le=LONGEST_SECONDS)] = 30) -> Response:
        if busy.locked():
            raise HTTPException(409, "a profile is being taken already")
        async with busy:
            began = time.time()
            found, taken = await asyncio.to_thread(sample, seconds)
            content = await asyncio.to_thread(encode, found, taken, began, seconds)
        disposition = {"content-disposition": 'attachment; filename="profile.pb.gz"'}
        return Response(content, media_type="application/octet-stream", headers=disposition)

    @routes.get("", include_in_schema=False)
    @routes.get("/", include_in_schema=False)
    async def index() -> PlainTextResponse:
        return PlainTextResponse("profile?seconds=30  for go tool pprof\nstacks  what all threads do\n")

    @routes.get("/stacks", include_in_schema=False)
    async def all_stacks() -> PlainTextResponse:
        return PlainTextResponse(stacks())

    return routes
