"""The part `extender`: the extender endpoints, and the work that only one extender of a cluster does."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.needs import Right
from koordpy.cluster import transformers
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.cluster.refreshing import Refreshing
from koordpy.compose.extender_certificate import certificate_of
from koordpy.compose.extender_election import ExtenderElection
from koordpy.compose.kube_scheduler_watch import KubeSchedulerWatch
from koordpy.compose.leases import lease_rights
from koordpy.compose.part import Certificate, Part, PartNeeds, Routes
from koordpy.gates import serving as serving_gates
from koordpy.http.routes.extender import endpoints
from koordpy.http.routes.gangs import reporter
from koordpy.http.routes.quotas import explainer
from koordpy.lib import supervise
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.lib.verbosity import set_verbosity
from koordpy.scheduling.explain.causes import Causes
from koordpy.scheduling.explain.decisions import Decisions
from koordpy.scheduling.explain.observers import Observers
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.extender.pre_enqueue import PreEnqueueGates
from koordpy.scheduling.extender.waking import Waking
from koordpy.scheduling.framework.controllers import PluginControllers
from koordpy.scheduling.interface import PlansJobs, TentativeReserve
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.settings import Settings

log = logging.getLogger(__name__)


class ExtenderPart(Part):
    """The profiles, the extender that answers kube-scheduler, and the election among several extenders."""

    name: ClassVar[str] = "extender"
    config: SchedulerConfiguration
    profiles: Profiles
    extender: Extender
    observers: Observers
    election: ExtenderElection
    debug_flags: DebugFlags
    network_topology: TreeManager | None = None
    _certificate: Certificate | None = None
    _observing: asyncio.Task[None] | None = None
    _refreshing: asyncio.Task[None] | None = None
    _kube_scheduler: KubeSchedulerWatch
    _states: Refreshing

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return nodes and pods; in full mode also the right to get a pod whose bind is in doubt."""
        rights = (Right("get", "pods"),) if settings.extender.mode == "full" else ()
        return PartNeeds(follows=(Node, Pod), rights=rights)

    @staticmethod
    def leading_rights(settings: Settings) -> Iterator[Right]:
        """Yield the rights that are needed for work that only one of several extenders does."""
        if settings.extender.leader_elect:
            yield from lease_rights(settings.extender.lease)

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The gates of `koordpy serve`, which admission and scheduling share."""
        return serving_gates(admission=False)

    def prepare(self) -> None:
        """Create the profiles, and everything that works with them."""
        process, settings = self.process, self.process.settings.extender
        self._certificate = certificate_of(settings)
        path = settings.profiles_file
        self.config = scheduling_config.load(path)
        transformers.install(process.cluster, process.gates)
        self._kube_scheduler = KubeSchedulerWatch(
            process.cluster, process.client, settings.kube_scheduler_gang_scheduling
        )
        self.debug_flags = settings.debug_log.flags(set_verbosity)
        if settings.network_topology_manager:
            self.network_topology = TreeManager(process.cluster, process.client)
        self._waiting_pods = WaitingPods()
        try:
            self.profiles = build(
                self.config,
                lambda _: self.handle(),
                place=Place.EXTENDER,
                skip_missing=settings.skip_missing_plugins,
                gates=process.gates,
            )
        except ConfigError as error:
            raise error.under(path) from None
        for line in config_model.without_effect(self.config, scheduling_config.EXTENDER):
            log.warning("%s: %s", path, line)
        for framework in self.profiles.frameworks.values():
            for plugin in framework.plugins:
                for line in config_model.without_effect(plugin.args, scheduling_config.EXTENDER):
                    log.warning("%s: arguments of %s: %s", path, plugin.name, line)
        for name, places in self.profiles.missing.items():
            log.warning(
                "%s: plugin %s is not installed, and therefore left out: %s", path, name, ", ".join(places)
            )
        decisions = Decisions(settings.decisions)
        self.extender = Extender(
            self.profiles,
            self.handle(),
            decisions=decisions,
            is_light=settings.mode == "light",
            node_choice=settings.node_choice,
            histories=settings.histories,
        )
        causes = Causes(
            self.profiles, self.extender.histories, reporter(self.extender), explainer(self.extender)
        )
        self.observers = Observers(
            settings, self.profiles, self.extender.handle, decisions, process.client, causes.shared
        )
        self._prepare_election()
        self._states = Refreshing(process.cluster.states)
        process.health.ready["node-state"] = self._state_problem

    def handle(self) -> Handle:
        """Return a new handle; all have the same cluster and waiting pods."""
        process = self.process
        return Handle(
            process.cluster,
            client=process.client,
            clock=process.clock,
            rng=process.rng,
            waiting_pods=self._waiting_pods,
            debug_flags=self.debug_flags,
            network_topology=self.network_topology,
        )

    def _prepare_election(self) -> None:
        """Add the work that only one of several processes does; the part `reservations` adds its own."""
        process, settings = self.process, self.process.settings.extender
        self.election = ExtenderElection(
            self.extender,
            process.client,
            settings.lease if settings.leader_elect else None,
            clock=process.clock,
            rng=process.rng,
        )
        frameworks = self.profiles.frameworks.values()
        controllers = PluginControllers(frameworks, settings.controller_plugins)
        if controllers:
            self.election.add("plugin controllers", controllers.run)
        waking = Waking(frameworks, self.handle(), process.client)
        if waking:
            self.election.add("waking of pods", waking.run)
        gates = PreEnqueueGates(self.profiles, self.handle(), process.client, self.observers.events)
        if gates:
            self.election.add("PreEnqueue gates", gates.run)
        if self.extender.post_filters:
            self.election.add("PostFilter", self.extender.post_filters.run)
        if self.observers.explanations is not None:
            self.election.add("ScheduleExplanations", self.observers.explanations.run)
        if self.network_topology is not None:
            self.election.add("network topology", self.network_topology.run)
        beyond_nodes = (PlansJobs, TentativeReserve)
        if any(isinstance(plugin, beyond_nodes) for each in frameworks for plugin in each.plugins):
            self.election.guard(self._catch_up)

    async def _catch_up(self) -> None:
        """Wait until the binds of other processes are known."""
        await self.process.informers.catch_up(Pod)

    def routes(self) -> Routes:
        """Return the extender verbs."""
        settings = self.process.settings.extender
        return Routes(settings=settings, hot=endpoints(self.extender), certificate=self._certificate)

    async def start(self) -> None:
        """Observe attempts, and campaign once everything is listed."""
        await self._kube_scheduler.start()
        self._observing = asyncio.create_task(supervise.forever("observers", self.observers.run))
        refresh = partial(self._states.run, self.process.informers.wait_synced)
        self._refreshing = asyncio.create_task(supervise.forever("refreshing of node state", refresh))
        self.election.begin(self.process.informers.wait_synced)

    def _state_problem(self) -> str | None:
        """Return what is missing; what is not listed yet is reported by the informers."""
        return self._states.problem() if self.process.cluster.synced else None

    async def wait_ready(self) -> None:
        """Return once requests can be answered without computing the state of all nodes first."""
        await self._states.wait()

    async def stop(self) -> None:
        """End.

        Binds that are held for a Permit plugin are answered with an error: kube-scheduler retries the pods.
        """
        await self.election.stop()
        await self._kube_scheduler.stop()
        self.extender.close("koordpy is shutting down")
        tasks = [task for task in (self._observing, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.observers.close()
