"""Health in Kubernetes' manner: `/livez`, `/readyz`, `/healthz`, with `?verbose`, `?exclude=` and `/CHECK`.

`/livez` says whether to restart the process, `/readyz` whether to send it requests; `/healthz` is the old
name for both.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from koordpy.api.scheme import RESOURCES
from koordpy.cluster.informer import Health as Informed
from koordpy.cluster.informer import State
from koordpy.cluster.informers import Informers

Check = Callable[[], str | None]
"""Returns None when all is well, else what is wrong."""


class Health:
    """The named checks of one process. Doors add theirs while they are wired.

    Checks answer at once. What takes time is in `looks`: they are awaited before readiness is judged, and
    leave what they saw where a check finds it.
    """

    def __init__(self) -> None:
        self.looks: list[Callable[[], Awaitable[object]]] = []
        self.live: dict[str, Check] = {"ping": lambda: None}
        self.ready: dict[str, Check] = {"ping": lambda: None}

    def failures(self, checks: Mapping[str, Check]) -> dict[str, str]:
        """Return the names of failing checks with their reasons."""
        found = {name: check() for name, check in checks.items()}
        return {name: reason for name, reason in found.items() if reason is not None}


def informer_checks(informers: Informers, name: str = "") -> dict[str, Check]:
    """Return a check for every started informer: failing until it has listed once, and saying why.

    `name` tells several `Informers` of one process apart.
    """
    prefix = f"informer-{name}-" if name else "informer-"

    def check_of(kind: str) -> Check:
        def check() -> str | None:
            return next((_trouble(found) for found in informers.health if found.kind == kind), None)

        return check

    return {f"{prefix}{informer.kind}": check_of(informer.kind) for informer in informers.health}


def _trouble(informer: Informed) -> str | None:
    if informer.synced:
        return None
    if informer.state is State.ABSENT:
        # What needs the type was asked for, so being ready without it would be a lie; the informer looks
        # again and again, and goes on by itself when the type appears.
        resource = next(found for type_, found in RESOURCES.items() if type_.__name__ == informer.kind)
        served = f"the API server does not serve {resource.plural} of {resource.api_version}"
        name = f"{resource.plural}.{resource.group}"
        return f"{served}: CRD not installed ({name})" if "." in resource.group else served
    return f"{informer.state}{': ' + informer.error if informer.error else ''}"


def router(health: Health) -> APIRouter:
    """Return the health routes.

    They run on the event loop, which owns all that they look at.
    """
    routes = APIRouter(default_response_class=PlainTextResponse)

    async def look() -> None:
        for one in health.looks:
            await one()

    async def take_no_look() -> None:
        pass

    def add(
        path: str, checks: Callable[[], dict[str, Check]], look: Callable[[], Awaitable[None]] = look
    ) -> None:
        async def all_checks(
            verbose: Annotated[str | None, Query()] = None,
            exclude: Annotated[list[str] | None, Query()] = None,
        ) -> PlainTextResponse:
            await look()
            return _answer(path, health, checks(), verbose is not None, exclude or [])

        async def one_check(check: str) -> PlainTextResponse:
            known = checks()
            if check not in known:
                return PlainTextResponse(
                    f"no check {check!r} in {path}; there are: {', '.join(known)}\n", status_code=404
                )
            await look()
            return _answer(path, health, {check: known[check]}, False, [])

        routes.add_api_route(path, all_checks, methods=["GET", "HEAD"], include_in_schema=False)
        routes.add_api_route(f"{path}/{{check}}", one_check, methods=["GET"], include_in_schema=False)

    add("/livez", lambda: health.live, take_no_look)
    add("/readyz", lambda: health.ready)
    add("/healthz", lambda: {**health.live, **health.ready})
    return routes


def _answer(
    path: str, health: Health, checks: dict[str, Check], verbose: bool, exclude: list[str]
) -> PlainTextResponse:
    chosen = {name: check for name, check in checks.items() if name not in exclude}
    failures = health.failures(chosen)
    if not failures and not verbose:
        return PlainTextResponse("ok")
    lines = [
        f"[-]{name} failed: {failures[name]}" if name in failures else f"[+]{name} ok" for name in chosen
    ]
    lines += [f"[+]{name} excluded: ok" for name in exclude if name in checks]
    lines.append(f"{path[1:]} check {'failed' if failures else 'passed'}")
    return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if failures else 200)
