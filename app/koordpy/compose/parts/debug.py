"""The part `debug`: the debug API, health checks and metrics of all parts of the process."""

from typing import TYPE_CHECKING, Any, ClassVar, cast

from koordpy.compose import debug_access
from koordpy.compose.part import Part, PartNeeds, Routes
from koordpy.http.routes import debug, gangs, histories, quotas
from koordpy.lib.verbosity import set_verbosity
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.settings import Settings

if TYPE_CHECKING:
    from .admission import AdmissionPart
    from .controllers import ControllersPart
    from .descheduler import DeschedulerPart
    from .extender import ExtenderPart
    from .node_agent import NodeAgentPart


class DebugPart(Part):
    """The debug API. Beyond loopback the API server authenticates and authorizes callers."""

    name: ClassVar[str] = "debug"
    accompanies: ClassVar[bool] = True

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return the rights to create TokenReviews and SubjectAccessReviews."""
        return PartNeeds(rights=debug_access.rights(settings.debug))

    def prepare(self) -> None:
        """Reject an address that is reachable from outside without authentication."""
        debug_access.check(self.process.settings.debug)

    def routes(self) -> Routes:
        """Return the whole debug API. Endpoints without their part answer with that reason."""
        process = self.process
        extender = cast("ExtenderPart | None", process.named("extender"))
        admission = cast("AdmissionPart | None", process.named("admission"))
        agent = cast("NodeAgentPart | None", process.named("agent"))
        descheduler = cast("DeschedulerPart | None", process.named("descheduler"))
        controllers = cast("ControllersPart | None", process.named("controllers"))
        sources = debug.Sources(is_ready=lambda: process.informers.synced, gates=dict(process.gates))
        configz: dict[str, Any] = {"koordpy": process.settings.model_dump(mode="json", by_alias=True)}
        sources.flags = DebugFlags(set_verbosity=set_verbosity)
        if admission is not None:
            sources.chains, sources.quotas = admission.chains, admission.quotas
        if extender is not None:
            sources.cluster, sources.profiles = process.cluster, extender.profiles
            sources.decisions, sources.streams = extender.extender.decisions, extender.observers.streams
            sources.flags = extender.debug_flags
        if descheduler is not None:
            sources.descheduler = descheduler.descheduler
            sources.descheduler_waiting = descheduler.waiting
            sources.hypothetical_rounds = descheduler.what_if
            configz["descheduler"] = descheduler.descheduler.completed.written()
        if controllers is not None:
            sources.node_explainer = controllers.node_explainer
        sources.configz = configz
        return Routes(
            settings=process.settings.debug,
            routers=[
                debug.router(sources),
                histories.router(None if extender is None else extender.extender),
                gangs.router(None if extender is None else extender.extender),
                quotas.router(None if extender is None else extender.extender),
            ],
            endpoints={} if agent is None else agent.agent.endpoints,
            authenticated=process.settings.debug.authentication,
        )
