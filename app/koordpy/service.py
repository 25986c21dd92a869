"""`koordpy serve`: one client, what is known of the cluster, and the doors that are open on it."""

import asyncio
import logging
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from koordpy import gates
from koordpy.admission import config as admission_config
from koordpy.admission.chain import Chain
from koordpy.admission.handler import Handle as AdmissionHandle
from koordpy.admission.paths import ELASTIC_QUOTA_VALIDATION
from koordpy.admission.serving.config import Mode
from koordpy.admission.serving.life import WebhookLife
from koordpy.api import config_model
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.cluster import transformers
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Channel, Connection
from koordpy.cluster.informer_checks import informer_checks
from koordpy.cluster.informers import Informers
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.http.routes import debug, health, histories, webhook_server
from koordpy.http.routes.admission import webhooks
from koordpy.http.routes.extender import endpoints
from koordpy.http.server.application import Application
from koordpy.http.server.asgi import ASGIApp
from koordpy.http.server.authentication import Authenticated
from koordpy.http.server.listener import Listener
from koordpy.leading import Lead, Part
from koordpy.lib import certificates, supervise
from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.health import Health
from koordpy.lib.verbosity import set_verbosity
from koordpy.scheduling.explain.decisions import Decisions
from koordpy.scheduling.explain.observers import Observers
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.extender.pre_enqueue import PreEnqueueGates, gates_for
from koordpy.scheduling.extender.waking import Waking
from koordpy.scheduling.framework.controllers import PluginControllers
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.scheduling.interface.handle import Handle as SchedulingHandle
from koordpy.scheduling.interface.nominator import Nominator
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.config import Profile, SchedulerConfiguration
from koordpy.scheduling.profiles.registry import Place, Profiles, build
from koordpy.scheduling.reservations.scheduler import ReservationScheduler
from koordpy.settings import DOORS, ListenerSettings, Settings

log = logging.getLogger(__name__)

WEBHOOK_GRACE = 60
"""Seconds that webhook requests which are under way at the end may take (Koordinator: one minute)."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServiceError(Exception):
    """The settings ask for something that must not be."""


class Service:
    """One serving process. `start`, then `stop`; in between requests are answered.

    Everything that can be wrong in the configuration is found while it is made, before anything listens.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        connection: Channel | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        access = settings.client
        self.connection: Channel = connection or Connection.find(
            access.kubeconfig, access.context, access.server
        )
        self.client = Client(self.connection)
        self.cluster = Cluster(self._clock)
        self.health = Health()
        self.listeners: dict[str, Listener] = {}
        self.chains: dict[str, Chain] = {}
        self._quotas: QuotaTopology | None = None
        self.webhooks: WebhookLife | None = None
        self._serves = False
        self.profiles = Profiles()
        self.extender: Extender | None = None
        self.network_topology: TreeManager | None = None
        self.debug_flags = DebugFlags(set_verbosity=set_verbosity)
        self.observers: Observers | None = None
        self._observing: asyncio.Task[None] | None = None
        self.lead: Lead | None = None
        self._gates = gates.chosen(
            gates.serving(admission="admission" in settings.doors, extender="extender" in settings.doors),
            settings.feature_gates,
        )
        self._informers = Informers(self.cluster, self.client, rng=self._rng)
        self.health.ready["informers"] = self._informers_problem
        open_door = {
            "admission": self._open_admission,
            "extender": self._open_extender,
            "debug": self._open_debug,
        }
        try:
            for door in DOORS:  # debug comes last: it shows the others
                if door in settings.doors:
                    open_door[door]()
        except BaseException:
            for listener in self.listeners.values():
                listener.close()
            raise

    # --- doors -----------------------------------------------------------------------------------

    def _open_admission(self) -> None:
        settings = self.settings.admission
        if not self._gates.enabled("WebhookFramework"):
            log.warning("the gate WebhookFramework is off: the admission door stays closed")
            return
        config = admission_config.AdmissionConfig(
            enabled=list(settings.enabled), disabled=list(settings.disabled), history=settings.history
        )
        handle = AdmissionHandle(
            self.cluster,
            self._gates,
            self._rng,
            self._clock,
            self.client,
            gates_for(self._profiles_for_admission()),
        )
        self.chains = admission_config.build_chains(config, handle)
        if ELASTIC_QUOTA_VALIDATION in self.chains:
            self._quotas = self.cluster.shared(QuotaTopology)
        folder, serving = settings.certificate_folder, settings.certificates
        if serving.mode is Mode.LOCAL:
            hosts = (*settings.tls_hosts, *filter(None, [serving.host]))
            certificates.ensure(folder, hosts, self._clock.now())
        listener = self._listen(
            "admission",
            settings,
            webhooks(self.chains),
            webhook_server.router(lambda: self._quotas),
            cert_dir=folder,
            certificate_comes_later=serving.generates,
            grace_seconds=WEBHOOK_GRACE,
        )
        self.webhooks = WebhookLife(
            serving,
            settings.registration if settings.registers else None,
            folder,
            listener,
            self.chains,
            self.client,
            clock=self._clock,
            rng=self._rng,
        )
        self.health.probes.append(self.webhooks.look)
        self.health.ready["webhook-ready"] = self.webhooks.problem

    def _profiles_for_admission(self) -> Profiles:
        """Return the scheduler profiles for questions about a pod alone; their plugins see no cluster."""
        settings = self.settings.extender
        return build(
            scheduling_config.load(settings.profiles_file),
            lambda _: SchedulingHandle(Cluster(self._clock)),
            place=Place.EXTENDER,
            skip_missing=True,
            gates=self._gates,
        )

    def _open_extender(self) -> None:
        settings = self.settings.extender
        path = settings.profiles_file
        config = scheduling_config.load(path)
        transformers.install(self.cluster, self._gates)
        self.debug_flags = settings.debug_log.flags(set_verbosity)
        nominator, waiting_pods = self.cluster.shared(Nominator), WaitingPods()
        if settings.network_topology_manager:
            self.network_topology = TreeManager(self.cluster, self.client)

        def handle_of(_: Profile | None) -> SchedulingHandle:
            return SchedulingHandle(
                self.cluster,
                client=self.client,
                clock=self._clock,
                rng=self._rng,
                nominator=nominator,
                waiting_pods=waiting_pods,
                debug_flags=self.debug_flags,
                network_topology=self.network_topology,
            )

        try:
            self.profiles = build(
                config,
                handle_of,
                place=Place.EXTENDER,
                skip_missing=settings.skip_missing_plugins,
                gates=self._gates,
            )
        except ConfigError as error:
            raise error.under(path) from None
        for line in config_model.without_effect(config, scheduling_config.EXTENDER):
            log.warning("%s: %s", path, line)
        for missing in self.profiles.missing:
            log.warning("%s: not installed, and therefore left out: %s", path, missing)
        decisions = Decisions(settings.decisions)
        self.extender = Extender(
            self.profiles,
            handle_of(None),
            decisions=decisions,
            is_light=settings.mode == "light",
            node_choice=settings.node_choice,
            histories=settings.histories,
        )
        self._listen("extender", settings, endpoints(self.extender))
        self.observers = Observers(settings, self.profiles, self.extender.handle, decisions, self.client)
        self._stand_for_election(config, self.extender, self.observers, handle_of(None))

    def _stand_for_election(
        self,
        config: SchedulerConfiguration,
        extender: Extender,
        observers: Observers,
        handle: SchedulingHandle,
    ) -> None:
        """Prepare what only one of several processes does."""
        settings = self.settings.extender
        reservations = ReservationScheduler(
            self.profiles,
            handle,
            self.client,
            observers.events,
            gates=self._gates,
            decisions=extender.decisions,
            fence=extender.binds.fence,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
        )
        controllers = PluginControllers(self.profiles.frameworks.values(), settings.controller_plugins)
        parts: dict[str, Part] = {}
        if reservations:
            parts["scheduling of Reservations"] = reservations.run
        if controllers:
            parts["plugin controllers"] = controllers.run
        waking = Waking(self.profiles.frameworks.values(), handle, self.client)
        if waking:
            parts["waking of pods"] = waking.run
        gates = PreEnqueueGates(self.profiles, handle, self.client, observers.events)
        if gates:
            parts["PreEnqueue gates"] = gates.run
        if observers.explanations is not None:
            parts["ScheduleExplanations"] = observers.explanations.run
        if self.network_topology is not None:
            parts["network topology"] = self.network_topology.run
        if parts:
            self.lead = Lead(
                parts,
                extender,
                self.client,
                settings.lease if settings.leader_elect else None,
                catch_up=self._see_what_was_given_away if reservations else None,
                clock=self._clock,
                rng=self._rng,
            )

    async def _see_what_was_given_away(self) -> None:
        await self._informers.catch_up(Pod, Reservation)

    def _open_debug(self) -> None:
        settings = self.settings.debug
        if settings.bind_address not in LOOPBACK and not settings.authentication:
            raise ServiceError(
                f"debug.bindAddress: {settings.bind_address} is not loopback; set debug.authentication, or "
                f"bind to 127.0.0.1"
            )
        if settings.bind_address not in LOOPBACK and settings.cert_dir is None:
            log.warning("debug.certDir is not set: bearer tokens cross the network in clear text")
        sources = debug.Sources(
            cluster=self.cluster if self.extender else None,
            chains=self.chains,
            profiles=self.profiles,
            decisions=self.extender.decisions if self.extender else None,
            streams=self.observers.streams if self.observers else None,
            flags=self.debug_flags,
            is_ready=lambda: self._informers.synced,
            configz={"koordpy": self.settings.model_dump(mode="json", by_alias=True)},
            gates=dict(self._gates),
            quotas=self._quotas,
        )
        self._listen("debug", settings, {}, debug.router(sources), histories.router(self.extender))

    def _listen(
        self,
        name: str,
        settings: ListenerSettings,
        hot: Mapping[str, ASGIApp],
        *routers: APIRouter,
        cert_dir: Path | None = None,
        **options: Any,
    ) -> Listener:
        app: Any = Application(
            f"koordpy {name}", [*routers, health.router(self.health)], hot, lambda: self._informers.synced
        )
        if name == "debug" and self.settings.debug.authentication:
            app = Authenticated(app, self.client, self._clock)
        if cert_dir is None and settings.cert_dir:
            cert_dir = Path(settings.cert_dir)
            certificates.ensure(cert_dir, settings.tls_hosts, self._clock.now())
        listener = Listener(
            name,
            app,
            host=settings.bind_address,
            port=settings.port,
            cert_dir=cert_dir,
            **options,
        )
        self.listeners[name] = listener
        self.health.ready[f"door-{name}"] = lambda: None if listener.is_listening else "not listening"
        return listener

    # --- life ------------------------------------------------------------------------------------

    async def start(self, *, listen: bool = True) -> None:
        """Follow the cluster and open the doors.

        The doors listen at once, so that probes get answers; until every informer has listed, `/readyz`
        says no and no request is decided on half a view. Only the webhooks wait for a certificate that is
        made now, and for being registered with it. Raises FirstSyncError when that takes too long.

        Without `listen` no door opens: callers in this process ask `chains` and `extender` directly.
        """
        await self._informers.start()
        self.health.ready |= informer_checks(self._informers)
        if not listen:
            await self._informers.wait_synced()
        if listen:
            await self._open_doors()
        if self.observers is not None:
            self._observing = asyncio.create_task(supervise.forever("observers", self.observers.run))
        if self.lead is not None:
            self.lead.begin(self._informers.wait_synced)
        self._serves = True

    async def _open_doors(self) -> None:
        for name, listener in self.listeners.items():
            if name != "admission":
                await listener.start()
        if self.webhooks is not None:
            await self.webhooks.prepare()
            await self.listeners["admission"].start()
            self.webhooks.begin_to_call()

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Return when every informer has listed and the webhooks can be called.

        Raises TimeoutError naming what has not come about.
        """
        await self._informers.wait_synced(timeout)
        if self.webhooks is not None:
            try:
                async with asyncio.timeout(timeout):
                    await self.webhooks.wait_answered()
            except TimeoutError:
                raise TimeoutError(f"webhook-ready: {self.webhooks.problem()}") from None

    async def stop(self) -> None:
        """Take leave, close the doors, answering what is under way, then let go of the cluster.

        Taking leave is not being ready any more, while requests are still answered: the cluster needs a
        moment to send no more of them. Binds that are held for a Permit plugin are answered with an error:
        kube-scheduler retries the pods.
        """
        self.health.ready["shutdown"] = lambda: "koordpy is shutting down"
        for listener in self.listeners.values():
            listener.drain()
        if self._serves:
            await asyncio.sleep(self.settings.shutdown_seconds)
        if self.lead is not None:
            await self.lead.stop()
        if self.extender is not None:
            self.extender.close("koordpy is shutting down")
        await self._stop_observing()
        if self.webhooks is not None:
            await self.webhooks.stop()
        await asyncio.gather(*(listener.stop() for listener in self.listeners.values()))
        await self._informers.stop()
        await self.client.close()

    async def _stop_observing(self) -> None:
        if self._observing is not None:
            self._observing.cancel()
            await asyncio.gather(self._observing, return_exceptions=True)
        if self.observers is not None:
            await self.observers.close()

    def _informers_problem(self) -> str | None:
        return None if self._informers.synced else "not all informers have listed yet"
