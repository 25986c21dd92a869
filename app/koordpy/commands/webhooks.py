"""The pod webhooks as a configuration sets them up: their handlers, arguments and gates, for one command."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from koordpy import gates as all_gates
from koordpy.admission.certain_chance import CertainChance
from koordpy.admission.chain import Chain
from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.handler import Handle
from koordpy.api.config_model import ConfigError
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.kubernetes_gangs import KubernetesGangs
from koordpy.lib import feature_gates
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates
from koordpy.scheduling.extender.pre_enqueue import GatesFor


@dataclass(frozen=True)
class Webhooks:
    """The settings of admission. Without a configuration file the defaults count."""

    gates: FeatureGates
    config: AdmissionConfig = field(default_factory=AdmissionConfig)
    pre_enqueue_gates: GatesFor | None = None
    file: Path | None = None

    @classmethod
    def of(cls, file: Path | None = None, gates: str = "") -> "Webhooks":
        """Return the settings in a KoordpyConfiguration, with the gates of `A=true,B=false` over its own.

        Raises ConfigError naming the file, FeatureGateError, OSError.
        """
        from koordpy import settings as process_settings

        overrides = {"featureGates": feature_gates.parse(gates) or None}
        settings = process_settings.load(file, overrides, os.environ)
        try:
            chosen = all_gates.chosen(all_gates.serving(), settings.feature_gates)
        except FeatureGateError as error:
            in_file = file is not None and not any(
                f"'{name}'" in str(error) for name in feature_gates.parse(gates)
            )
            raise FeatureGateError(f"{file}: featureGates: {error}" if in_file else str(error)) from None
        if file is None:
            return cls(chosen)
        admission = settings.admission
        config = AdmissionConfig(enabled=list(admission.enabled), disabled=list(admission.disabled))
        return cls(chosen, config, _pre_enqueue_gates(settings.extender.profiles_file, chosen), file)

    def chains(self, cluster: Cluster) -> dict[str, Chain]:
        """Return the chains over a cluster; every probability above 0 counts as 1. Raises ConfigError."""
        handle = Handle(
            cluster,
            self.gates,
            CertainChance(),
            SystemClock(),
            pre_enqueue_gates=self.pre_enqueue_gates,
        )
        try:
            return build_chains(self.config, handle)
        except ConfigError as error:
            raise error.under(self.file) if self.file is not None else error from None


def _pre_enqueue_gates(profiles: Path, gates: FeatureGates) -> GatesFor | None:
    """Return what adds the scheduling gates of the extender's plugins. Raises ConfigError naming the file."""
    from koordpy.scheduling.extender.pre_enqueue import gates_for
    from koordpy.scheduling.interface.handle import Handle as SchedulingHandle
    from koordpy.scheduling.profiles import config as scheduling_config
    from koordpy.scheduling.profiles.registry import Place, build

    config = scheduling_config.load(profiles)
    try:
        return gates_for(
            build(
                config,
                lambda _: SchedulingHandle(Cluster(SystemClock())),
                place=Place.EXTENDER,
                skip_missing=True,
                gates=gates,
            ),
            KubernetesGangs(gates),
        )
    except ConfigError as error:
        raise error.under(profiles) from None
