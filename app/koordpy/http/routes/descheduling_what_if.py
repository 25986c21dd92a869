"""`POST /apis/v1/whatif/descheduling`: what a round of a DeschedulerConfiguration would do to the cluster.

The body is the file, as YAML or JSON, bare or in a ConfigMap. The round is a dry run on a copy of the view.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request

from koordpy.api.config_model import ConfigError
from koordpy.cluster.errors import ApiError, ConnectionFailed, Forbidden
from koordpy.descheduling.engine.what_if import LONGEST, MOST_ROUNDS, DeschedulingForecast

from .object_body import read_text
from .parameters import known_parameters
from .turns import Turns

WhatIf = Callable[[str, int], Awaitable[DeschedulingForecast]]
"""Takes the text of a configuration and a number of rounds."""


def router(what_if: Callable[[], WhatIf | None], is_ready: Callable[[], bool], turns: Turns) -> APIRouter:
    """Return the route; `what_if()` is None if this process does not run the descheduler."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])

    @routes.post(
        "/apis/v1/whatif/descheduling",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    media: {"schema": {"type": "object"}}
                    for media in ("application/json", "application/yaml")
                },
            }
        },
    )
    async def descheduling(
        request: Request,
        rounds: Annotated[
            int,
            Query(ge=1, le=MOST_ROUNDS, description="Rounds on the same data; the last one is returned."),
        ] = 1,
    ) -> DeschedulingForecast:
        found = what_if()
        if found is None:
            raise HTTPException(404, "this process does not run the descheduler")
        if not is_ready():
            raise HTTPException(503, "the cluster has not been listed yet, see /readyz")
        text = await read_text(request)
        async with turns.take():
            try:
                return await found(text, rounds)
            except ConfigError as error:
                raise HTTPException(400, str(error)) from None
            except TimeoutError:
                raise HTTPException(503, f"the what-if did not end within {LONGEST:g} s") from None
            except Forbidden as error:
                raise HTTPException(
                    400, f"this process may not list what the configuration needs: {error}"
                ) from None
            except (ApiError, ConnectionFailed) as error:
                raise HTTPException(503, f"the API server: {error}") from None

    return routes
