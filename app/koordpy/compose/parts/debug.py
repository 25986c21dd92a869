"""The part `debug`: the debug API, health checks and metrics of all parts of the process."""

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from koordpy.api.needs import Right
from koordpy.compose.part import Part, PartError, PartNeeds, Routes
from koordpy.http.routes import debug, histories
from koordpy.http.server.authentication import ACCESS_REVIEWS, TOKEN_REVIEWS
from koordpy.lib.verbosity import set_verbosity
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.settings import Settings

if TYPE_CHECKING:
    from .admission import AdmissionPart
    from .descheduler import DeschedulerPart
    from .extender import ExtenderPart

log = logging.getLogger(__name__)

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class DebugPart(Part):
    """The debug API. Beyond loopback the API server authenticates and authorizes callers."""

    name: ClassVar[str] = "debug"
    accompanies: ClassVar[bool] = True

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return the rights to create TokenReviews and SubjectAccessReviews."""
        if not settings.debug.authentication:
            return PartNeeds()
        reviews = (TOKEN_REVIEWS, ACCESS_REVIEWS)
        return PartNeeds(rights=tuple(Right("create", each.plural, each.group) for each in reviews))

    def prepare(self) -> None:
        """Reject an address that is reachable from outside without authentication."""
        settings = self.process.settings.debug
        if settings.bind_address not in LOOPBACK and not settings.authentication:
            raise PartError(
                f"debug.bindAddress: {settings.bind_address} is not loopback; set debug.authentication, or "
                f"bind to 127.0.0.1"
            )
        if settings.bind_address not in LOOPBACK and settings.cert_dir is None:
            log.warning("debug.certDir is not set: bearer tokens cross the network in clear text")

    def routes(self) -> Routes:
        """Return the whole debug API. Endpoints without their part answer with that reason."""
        process = self.process
        extender = cast("ExtenderPart | None", process.named("extender"))
        admission = cast("AdmissionPart | None", process.named("admission"))
        descheduler = cast("DeschedulerPart | None", process.named("descheduler"))
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
        sources.configz = configz
        return Routes(
            settings=process.settings.debug,
            routers=[
                debug.router(sources),
                histories.router(None if extender is None else extender.extender),
            ],
            authenticated=process.settings.debug.authentication,
        )
