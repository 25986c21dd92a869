"""`/apis/v1/descheduling/rounds`: the last rounds of the descheduler, with each plugin's decisions."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query

from koordpy.descheduling.explain.decisions import Decisions, Round

from .parameters import known_parameters

_ABSENT = "this process does not run the descheduler"


def router(decisions: Callable[[], Decisions | None]) -> APIRouter:
    """Return the routes; `decisions` is None if no descheduler runs."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])

    @routes.get("/apis/v1/descheduling/rounds")
    async def rounds(
        limit: Annotated[int, Query(ge=1, le=10_000)] = 50,
        pod: Annotated[str, Query(description="NAMESPACE/NAME of a pod that a round tried to evict.")] = "",
    ) -> list[Round]:
        """Lists the newest rounds first."""
        known = decisions()
        found = [] if known is None else [found for found in known.rounds if not pod or _tried(found, pod)]
        return found[: -limit - 1 : -1]

    @routes.get("/apis/v1/descheduling/rounds/{number}")
    async def one(number: int) -> Round:
        known = decisions()
        if known is None:
            raise HTTPException(404, f"no round {number}: {_ABSENT}")
        for found in known.rounds:
            if found.number == number:
                return found
        raise HTTPException(404, f"no round {number} is remembered")

    return routes


def _tried(found: Round, pod: str) -> bool:
    return any(eviction.pod == pod for eviction in found.evictions)
