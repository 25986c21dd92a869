"""`/apis/v1/quotas`: the quota tree with limits and usage, and why a quota has no room.

Koordinator's own endpoints of quotas are those of the plugin ElasticQuota; here they are compared with each
other, and with the pods that use them.
"""

import asyncio

from fastapi import APIRouter, Depends, HTTPException, Response

from koordpy.scheduling.explain.plugin_services import PluginServices
from koordpy.scheduling.explain.quotas.explanation import QuotaExplainer, QuotaExplanation
from koordpy.scheduling.explain.quotas.tree import QuotaTree
from koordpy.scheduling.extender.extender import Extender

from .parameters import known_parameters

DISABLE_DEFAULT_QUOTA = "DisableDefaultQuota"
IGNORE_POD_OVERHEAD = "ElasticQuotaIgnorePodOverhead"


def router(extender: Extender | None) -> APIRouter:
    """Return the routes; without an extender they answer 404."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])
    made = None if extender is None else explainer(extender)

    def known() -> QuotaExplainer:
        if made is None:
            raise HTTPException(404, "quotas are not followed: this process does not serve the extender")
        return made

    @routes.get("/apis/v1/quotas", response_model=QuotaTree)
    async def quotas(tree: str = "", below: str = "") -> Response:
        try:
            read = known().quotas(tree)
            # Thousands of quotas take a while to write; others have their turn meanwhile.
            text = await asyncio.to_thread(lambda: read.model(below).model_dump_json(by_alias=True))
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from None
        return Response(text, media_type="application/json")

    @routes.get("/apis/v1/quotas/{name}")
    async def quota(name: str) -> QuotaExplanation:
        try:
            return known().explain(name)
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from None

    return routes


def explainer(extender: Extender) -> QuotaExplainer:
    """Return what explains the quotas of an extender."""
    framework = next(iter(extender.profiles.frameworks.values()), None)
    gates = extender.handle.gates if framework is None else framework.handle.gates

    def on(gate: str) -> bool:
        return gate in gates and gates.enabled(gate)

    return QuotaExplainer(
        PluginServices(extender.profiles),
        extender.handle.cluster,
        label_only=on(DISABLE_DEFAULT_QUOTA),
        overhead=not on(IGNORE_POD_OVERHEAD),
    )
