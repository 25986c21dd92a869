"""The part `controllers`: koord-manager's controllers, run by one process of the cluster."""

import logging
from collections.abc import Mapping
from typing import ClassVar

from koordpy.compose.election import Election
from koordpy.compose.leases import lease_rights
from koordpy.compose.part import Context, PartError, PartNeeds, WorkingPart
from koordpy.controllers import host as controller_host
from koordpy.controllers.host import ControllerHost
from koordpy.controllers.interface import Handle
from koordpy.controllers.noderesource.explanation import NodeExplainer
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.settings import Settings

log = logging.getLogger(__name__)


class ControllersPart(WorkingPart):
    """The controllers that settings and feature gates select."""

    name: ClassVar[str] = "controllers"
    host: ControllerHost
    election: Election

    def __init__(self, process: Context) -> None:
        super().__init__(process)
        self.catalogue = controller_host.installed()

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return the rights to hold the Lease."""
        if not settings.worker.leader_elect:
            return PartNeeds()
        return PartNeeds(rights=tuple(lease_rights(settings.worker.controllers.lease)))

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The gates of all installed controllers, and of the plugins of noderesource."""
        return controller_host.gate_specs(self.catalogue)

    def prepare(self) -> None:
        """Create the controllers and set them up. Raises PartError if there is none, and no other part."""
        process, settings = self.process, self.process.settings.worker
        chosen = settings.controllers
        handle = Handle(
            process.cluster,
            process.gates,
            process.client,
            process.clock,
            events=process.events,
            config_namespace=chosen.config_namespace,
            slo_config_name=chosen.slo_config_name,
        )
        self.host = ControllerHost(
            controller_host.build(self.catalogue, chosen.selection, chosen.args, handle)
        )
        if not self.host.controllers:
            if all(part is self or part.accompanies for part in process.parts):
                raise PartError(
                    f"nothing to run: worker.controllers.selection {','.join(chosen.selection)!r} "
                    "and the feature gates leave none of the controllers: "
                    f"{controller_host.described(self.catalogue)}"
                )
            log.warning("no controller is selected: the part controllers does nothing")
        self.host.setup()
        self.election = Election(
            self.host.run,
            process.client,
            chosen.lease if settings.leader_elect else None,
            clock=process.clock,
            rng=process.rng,
        )

    def node_explainer(self) -> NodeExplainer | None:
        """Return the controller that can say how a node's resources came about, if it runs here."""
        return next((item for item in self.host.controllers if isinstance(item, NodeExplainer)), None)

    async def work(self) -> None:
        """Run the controllers while this process leads, once everything is listed."""
        if self.host.controllers:
            await self.process.informers.wait_synced()
            await self.election.run()
