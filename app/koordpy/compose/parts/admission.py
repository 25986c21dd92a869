"""The part `admission`: the webhooks that kube-apiserver calls."""

import logging
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from koordpy.admission import config as admission_config
from koordpy.admission.chain import Chain
from koordpy.admission.handler import Handle
from koordpy.admission.paths import ELASTIC_QUOTA_VALIDATION
from koordpy.admission.serving.config import Mode
from koordpy.admission.serving.life import WebhookLife
from koordpy.api.needs import Right
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.kubernetes_gangs import KubernetesGangs
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.compose.part import Certificate, Part, PartNeeds, Routes
from koordpy.gates import serving as serving_gates
from koordpy.http.routes import webhook_server
from koordpy.http.routes.admission import webhooks
from koordpy.http.server.listener import Listener
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.scheduling.extender.pre_enqueue import gates_for
from koordpy.scheduling.interface.handle import Handle as SchedulingHandle
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.settings import Settings

from .extender import ExtenderPart

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 60
"""Seconds that webhook requests in flight at shutdown may take (Koordinator: one minute)."""

_GROUP: Final = "admissionregistration.k8s.io"


class AdmissionPart(Part):
    """The chains of admission handlers, and the lifecycle of the webhook server."""

    name: ClassVar[str] = "admission"
    chains: Mapping[str, Chain]
    """Chains by webhook path; empty if the gate WebhookFramework is off."""
    quotas: QuotaTopology | None = None
    life: WebhookLife | None = None
    """None if nothing listens."""

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return the rights to keep a certificate in a Secret and to complete the webhook configurations."""
        return PartNeeds(rights=tuple(_rights(settings)))

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The gates of the webhooks, of their handlers, and of the scheduler profiles that they know."""
        return serving_gates(extender=False)

    @property
    def shutdown_delay(self) -> float:
        """The listener's setting."""
        return self.process.settings.admission.shutdown_delay

    def prepare(self) -> None:
        """Create the chains."""
        process, settings = self.process, self.process.settings.admission
        self.chains = {}
        if not process.gates.enabled("WebhookFramework"):
            log.warning("the gate WebhookFramework is off: the part admission does nothing")
            return
        config = admission_config.AdmissionConfig(
            enabled=list(settings.enabled), disabled=list(settings.disabled), history=settings.history
        )
        handle = Handle(
            process.cluster,
            process.gates,
            process.rng,
            process.clock,
            process.client,
            gates_for(self._profiles(), self._kubernetes_gangs()),
        )
        self.chains = admission_config.build_chains(config, handle)
        if ELASTIC_QUOTA_VALIDATION in self.chains:
            self.quotas = process.cluster.shared(QuotaTopology)

    def _profiles(self) -> Profiles:
        """Return the scheduler profiles: the extender's, or profiles whose plugins see no cluster.

        They are only used for new pods.
        """
        process, settings = self.process, self.process.settings.extender
        extender = process.find(ExtenderPart)
        if extender is not None:
            return extender.profiles
        return build(
            scheduling_config.load(settings.profiles_file),
            lambda _: SchedulingHandle(Cluster(process.clock)),
            place=Place.EXTENDER,
            skip_missing=True,
            gates=process.gates,
        )

    def _kubernetes_gangs(self) -> KubernetesGangs:
        """Return what the extender knows of the gangs of Kubernetes' own API, or else the settings."""
        process = self.process
        left = process.settings.extender.kube_scheduler_gang_scheduling == "enabled"
        return process.cluster.kubernetes_gangs or KubernetesGangs(process.gates, left_to_kube_scheduler=left)

    def routes(self) -> Routes | None:
        """Return the webhooks, and the other endpoints of koord-manager's webhook server."""
        if not self.process.gates.enabled("WebhookFramework"):
            return None
        settings = self.process.settings.admission
        serving = settings.certificates
        hosts = (*settings.tls_hosts, *filter(None, [serving.host])) if serving.mode is Mode.LOCAL else None
        return Routes(
            settings=settings,
            hot={**webhooks(self.chains), "/convert": webhook_server.Conversion()},
            routers=[webhook_server.router(lambda: self.quotas)],
            certificate=Certificate(
                folder=settings.certificate_folder, hosts=hosts, comes_later=serving.generates
            ),
            grace_seconds=GRACE_SECONDS,
            on_start=False,
            checks_host=False,  # kube-apiserver calls by the name of the Service
        )

    def bound(self, listener: Listener) -> None:
        """Prepare the lifecycle around the listener. Raises CertificateError."""
        process, settings = self.process, self.process.settings.admission
        self._listener = listener
        self.life = WebhookLife(
            settings.certificates,
            settings.registration if settings.registers else None,
            settings.certificate_folder,
            listener,
            self.chains,
            process.client,
            process.cluster,
            rng=process.rng,
        )
        process.health.probes.append(self.life.look)
        process.health.ready["webhook-ready"] = self.life.problem

    async def start(self) -> None:
        """Obtain a certificate, register the webhooks with it, and listen.

        Raises FirstSyncError if that takes too long.
        """
        if self.life is not None:
            await self.life.prepare()
            await self._listener.start()
            self.life.begin_to_call()

    async def wait_ready(self) -> None:
        """Return once a call of the webhooks has been answered."""
        if self.life is not None:
            await self.life.wait_answered()

    async def stop(self) -> None:
        """Stop what runs around the listener."""
        if self.life is not None:
            await self.life.stop()


def _rights(settings: Settings) -> Iterator[Right]:
    serving, registration = settings.admission.certificates, settings.admission.registration
    if serving.mode is Mode.SECRET:
        yield Right("create", "secrets", namespace=serving.namespace)
        for verb in ("get", "list", "watch", "update"):
            yield Right(verb, "secrets", namespace=serving.namespace, name=serving.secret_name)
    if settings.admission.registers:
        for kind, name in (("mutating", registration.mutating), ("validating", registration.validating)):
            for verb in ("get", "list", "watch", "update"):
                yield Right(verb, f"{kind}webhookconfigurations", _GROUP, name=name)
