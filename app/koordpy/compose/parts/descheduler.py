"""The part `descheduler`: rounds of descheduling, by one process of the cluster."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
from koordpy.cluster import transformers
from koordpy.compose import trial_scheduling
from koordpy.compose.election import Election
from koordpy.compose.leases import lease_rights
from koordpy.compose.part import Context, PartError, PartNeeds, WorkingPart
from koordpy.descheduling.config import loading as descheduling_config
from koordpy.descheduling.config.configuration import LeaderElection
from koordpy.descheduling.engine import framework as descheduling
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.engine.what_if import DeschedulingForecast, forecast
from koordpy.descheduling.metrics import INTERVAL
from koordpy.gates import serving as serving_gates
from koordpy.lib.duration import SECOND
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.settings import LeaseSettings, Settings

log = logging.getLogger(__name__)

_EVENTS = "events.k8s.io"


class DeschedulerPart(WorkingPart):
    """The descheduler of a DeschedulerConfiguration file.

    Its work is over after one round if the file has no interval.
    """

    name: ClassVar[str] = "descheduler"
    descheduler: Descheduler
    election: Election

    def __init__(self, process: Context) -> None:
        super().__init__(process)
        self.catalogue = descheduling.installed()

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return nodes and pods, and the rights to write events and to hold the Lease.

        Profiles that prove evictions need what scheduling plugins follow, and annotate moved pods.
        """
        rights = [Right("create", "events", _EVENTS), Right("patch", "events", _EVENTS)]
        lease = descheduler_lease(settings)
        if lease is not None:
            rights += lease_rights(lease)
        follows: tuple[type[KubeObject], ...] = (Node, Pod)
        file = settings.worker.descheduler.config
        if file is not None and descheduling_config.load_file(Path(file)).proves:
            rights.append(Right("patch", "pods"))
            follows = tuple(dict.fromkeys((*follows, *trial_scheduling.follows(settings))))
        return PartNeeds(follows=follows, rights=tuple(rights))

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The gates of descheduling plugins, of the transformers, and of scheduling, which proofs try."""
        specs = {**serving_gates(admission=False), **transformers.SPECS}
        return self.catalogue.feature_gates(specs, skip_broken=True)

    def prepare(self) -> None:
        """Create the profiles of the configuration."""
        process, settings = self.process, self.process.settings.worker.descheduler
        if settings.config is None:
            raise PartError(
                "the descheduler needs worker.descheduler.config: a DeschedulerConfiguration file"
            )
        config = descheduling_config.load_file(Path(settings.config))
        for line in config.without_effect:
            log.warning("%s: %s", settings.config, line)
        if settings.dry_run is not None:
            config = config.model_copy(update={"dry_run": settings.dry_run})
        transformers.install(process.cluster, process.gates)
        trials = trial_scheduling.trial_scheduling(process) if config.proves else None
        try:
            self.descheduler = Descheduler(
                config,
                self.catalogue,
                process.cluster,
                process.client,
                process.events,
                gates=process.gates,
                trials=trials,
            )
        except ConfigError as error:
            raise error.under(settings.config) from None
        INTERVAL.set(config.descheduling_interval / SECOND)
        self.election = Election(
            self.descheduler.serve,
            process.client,
            _lease(config.leader_election, process.settings),
            once=self.descheduler.ends,
            clock=process.clock,
            rng=process.rng,
        )
        process.health.ready["descheduler"] = lambda: None  # a replica that waits is ready to take over
        process.health.notes["descheduler"] = self.waiting

    def waiting(self) -> str:
        """Return what the rounds wait for; empty if they run."""
        return f"waiting for {self.election.waiting_for}" if self.election.waiting_for else ""

    async def what_if(self, text: str, rounds: int) -> DeschedulingForecast:
        """Return what rounds of a DeschedulerConfiguration would do; nothing is written.

        Raises ConfigError, OSError for the trial scheduling's profiles, ApiError, ConnectionFailed,
        TimeoutError.
        """
        process = self.process
        config = await asyncio.to_thread(descheduling_config.load, text)
        return await forecast(
            config,
            self.catalogue,
            process.cluster,
            process.client,
            gates=process.gates,
            trials=lambda cluster: trial_scheduling.hypothetical(process, cluster),
            rounds=rounds,
        )

    async def work(self) -> None:
        """Run rounds while this process leads, once everything is listed."""
        await self.process.informers.wait_synced()
        await self.election.run()


def descheduler_lease(settings: Settings) -> LeaseSettings | None:
    """Return the Lease that the descheduler's configuration names, None if there is no election.

    Without a file it is that of Koordinator's defaults. Raises ConfigError, OSError.
    """
    file = settings.worker.descheduler.config
    election = LeaderElection()
    if file is not None:
        election = descheduling_config.load_file(Path(file)).leader_election
    return _lease(election, settings)


def _lease(election: LeaderElection, settings: Settings) -> LeaseSettings | None:
    if not (election.leader_elect and settings.worker.leader_elect):
        return None
    return LeaseSettings(
        namespace=election.resource_namespace,
        name=election.resource_name,
        lease_duration=election.lease_duration / 1e9,
        renew_deadline=election.renew_deadline / 1e9,
        retry_period=election.retry_period / 1e9,
    )
