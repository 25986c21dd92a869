"""How the resources of a node came about: `/apis/v1/colocation/nodes/{name}`."""

from collections.abc import Callable

from fastapi import APIRouter, Depends, HTTPException

from koordpy.controllers.noderesource.explanation import NodeExplainer, NodeResourceExplanation

from .parameters import known_parameters


def router(explainer: Callable[[], NodeExplainer | None]) -> APIRouter:
    """Return the route; without the noderesource controller it answers 404."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])

    @routes.get("/apis/v1/colocation/nodes/{name}")
    async def node(name: str) -> NodeResourceExplanation:
        found = explainer()
        if found is None:
            raise HTTPException(404, "this process does not run the controller noderesource")
        explanation = found.explain(name)
        if explanation is None:
            raise HTTPException(404, f"node {name} does not exist")
        return explanation

    return routes
