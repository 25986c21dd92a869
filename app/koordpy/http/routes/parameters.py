"""Refuse query parameters that a route does not know: a filter with a slip in its name would show all."""

from fastapi import HTTPException, Request
from fastapi.routing import APIRoute


async def known_parameters(request: Request) -> None:
    """Raise 400 for parameters that the route of a request does not have; a dependency of its router."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = [parameter.alias for parameter in route.dependant.query_params]
    strangers = [name for name in request.query_params if name not in known]
    if strangers:
        raise HTTPException(
            400, f"got parameter {strangers[0][:60]!r}, expected {', '.join(known) or 'no parameters'}"
        )
