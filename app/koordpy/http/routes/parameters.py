"""Rejects unknown query parameters: a filter with a misspelt name would match everything."""

from fastapi import HTTPException, Request
from fastapi.routing import APIRoute


async def known_parameters(request: Request) -> None:
    """Raise 400 for query parameters that the route of a request does not have; a FastAPI dependency."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = [parameter.alias for parameter in route.dependant.query_params]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise HTTPException(
            400, f"got parameter {unknown[0][:60]!r}, expected {', '.join(known) or 'no parameters'}"
        )
