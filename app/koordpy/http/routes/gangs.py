"""`/apis/v1/gangs`: gangs with the state of each member, and what they wait for.

Koordinator's own endpoints of gangs are those of the plugin Coscheduling; here is what the extender knows
besides: the nodes that are held, the pods that wait in Permit, and why attempts failed.
"""

from fastapi import APIRouter, Depends, HTTPException

from koordpy.scheduling.explain.gangs.report import GangReport, GangReporter, PlannedNode
from koordpy.scheduling.explain.plugin_services import PluginServices
from koordpy.scheduling.extender.extender import Extender

from .parameters import known_parameters


def router(extender: Extender | None) -> APIRouter:
    """Return the routes; without an extender they answer 404."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])
    reports = None if extender is None else reporter(extender)

    def known() -> GangReporter:
        if reports is None:
            raise HTTPException(404, "gangs are not followed: this process does not serve the extender")
        return reports

    @routes.get("/apis/v1/gangs")
    async def gangs(namespace: str = "") -> list[GangReport]:
        try:
            return known().all(namespace)
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from None

    @routes.get("/apis/v1/gangs/{namespace}/{name}")
    async def gang(namespace: str, name: str) -> GangReport:
        try:
            return known().gang(namespace, name)
        except LookupError as error:
            raise HTTPException(404, str(error.args[0])) from None

    return routes


def reporter(extender: Extender) -> GangReporter:
    """Return what reports the gangs of an extender."""
    handle = extender.handle

    def planned() -> dict[str, PlannedNode]:
        now = handle.clock.monotonic()
        return {
            uid: PlannedNode(placement.node_name, plan.until - now)
            for plan in extender.jobs.held
            for uid, placement in plan.placements.items()
        }

    return GangReporter(
        PluginServices(extender.profiles), handle.cluster, extender.histories, handle.waiting_pods, planned
    )
