"""Health checks as in Kubernetes: `/livez`, `/readyz`, `/healthz`, with `?verbose`, `?exclude=` and `/CHECK`.

`/livez` fails if the process should be restarted, `/readyz` if it should get no requests; `/healthz` is the
deprecated name for both. A cause that several checks have is one line, that of the first such check.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from koordpy.lib.health import Check, Health


def router(health: Health) -> APIRouter:
    """Return the health routes. They run on the event loop, which owns the state that checks read."""
    routes = APIRouter(default_response_class=PlainTextResponse)

    async def probe() -> None:
        for one in health.probes:
            await one()

    async def probe_nothing() -> None:
        pass

    def add(
        path: str, checks: Callable[[], dict[str, Check]], probe: Callable[[], Awaitable[None]] = probe
    ) -> None:
        async def all_checks(
            verbose: Annotated[str | None, Query()] = None,
            exclude: Annotated[list[str] | None, Query()] = None,
        ) -> PlainTextResponse:
            await probe()
            return _response(path, health, checks(), verbose is not None, exclude or [])

        async def one_check(check: str) -> PlainTextResponse:
            known = checks()
            if check not in known:
                return PlainTextResponse(
                    f"no check {check!r} in {path}; there are: {', '.join(known)}\n", status_code=404
                )
            await probe()
            return _response(path, health, {check: known[check]}, False, [])

        routes.add_api_route(path, all_checks, methods=["GET", "HEAD"], include_in_schema=False)
        routes.add_api_route(f"{path}/{{check}}", one_check, methods=["GET"], include_in_schema=False)

    add("/livez", lambda: health.live, probe_nothing)
    add("/readyz", lambda: health.ready)
    add("/healthz", lambda: {**health.live, **health.ready})
    return routes


def _response(
    path: str, health: Health, checks: dict[str, Check], verbose: bool, exclude: list[str]
) -> PlainTextResponse:
    passed, text = health.report(path[1:], checks, verbose=verbose, exclude=exclude)
    return PlainTextResponse(text, status_code=200 if passed else 503)
