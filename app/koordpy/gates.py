"""The feature gates of all parts of koordpy, so that one settings file serves every process.

Koordinator's binaries share one list of gates too. A process uses the gates of its own parts and ignores
those of other parts. A gate of Koordinator's that koordpy does not have has no effect and logs a warning;
any other name is refused by every process.
"""

import logging
from collections.abc import Mapping

from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, unrecognized


def serving(*, admission: bool = True, extender: bool = True) -> Mapping[str, FeatureSpec]:
    """Return the gates of `koordpy serve`, with those that plugins of its parts declare.

    Raises GateConflict.
    """
    from koordpy.admission import config as handlers  # a process imports only what it runs
    from koordpy.admission import gates as admission_gates
    from koordpy.scheduling.interface import gates as scheduling_gates
    from koordpy.scheduling.profiles import registry

    own = {**admission_gates.SPECS, **scheduling_gates.SPECS}
    if admission:
        own = handlers.installed().feature_gates(own, skip_broken=True)
    if extender:
        own = registry.installed().feature_gates(own, skip_broken=True)
    return own


KOORDINATOR = frozenset(
    {
        # koord-scheduler
        "CSIStorageCapacity",
        "CompatibleCSIStorageCapacity",
        "CompatiblePodDisruptionBudget",
        "DisableCSIStorageCapacityInformer",
        "DisableDynamicResourceAllocationInformer",
        "DisablePodDisruptionBudgetInformer",
        "EnableBatchScheduleNodeSnapshot",
        "GenericEphemeralVolume",
        "LazyReservationRestore",
        "PodDisruptionBudget",
        "SyncBarrier",
    }
)
"""Gates of Koordinator 1.8 that no part of koordpy has.

Source: Koordinator, `pkg/features`.
"""

log = logging.getLogger(__name__)


def chosen(
    own: Mapping[str, FeatureSpec], settings: Mapping[str, bool], *, tolerant: bool = False
) -> FeatureGates:
    """Return a part's own gates with the values in `settings`.

    With `tolerant` an unknown gate, which may be that of a broken plugin, is logged and ignored. Raises
    FeatureGateError for an unknown name, PluginError when a plugin of another kind that declares gates is
    broken.
    """
    foreign = [name for name in settings if name not in own and name not in ("AllAlpha", "AllBeta")]
    if foreign:
        known = _known()
        for name in foreign:
            if name in KOORDINATOR - known.keys():
                log.warning("feature gate %s of Koordinator has no effect: koordpy does not have it", name)
            elif name not in known and tolerant:
                log.warning("feature gate %s is ignored: no plugin that can be used declares it", name)
            elif name not in known:
                raise unrecognized(name, known)
    return FeatureGates(own, {name: on for name, on in settings.items() if name not in foreign})


def _known() -> Mapping[str, FeatureSpec]:
    from koordpy.agent.engine.plugins import Installed as AgentPlugins
    from koordpy.cluster import transformers
    from koordpy.controllers import host as controllers
    from koordpy.descheduling.engine import framework as descheduling

    parts = (
        serving(),
        controllers.gate_specs(controllers.installed()),
        descheduling.installed().feature_gates(transformers.SPECS),
        AgentPlugins.usable().gate_specs(),
    )
    return {name: spec for part in parts for name, spec in part.items()}
