"""All feature gates that some part of koordpy knows, so that one file of settings serves every process.

Koordinator's binaries share one list of gates too. A process takes the gates of its own parts; those of other
parts are none of its business; a name that no part knows is refused wherever it is read.
"""

from collections.abc import Mapping

from koordpy.admission import gates as admission_gates
from koordpy.controllers.host import Registry as ControllerRegistry
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates, FeatureSpec
from koordpy.qos.manager import QOSPlugins
from koordpy.scheduling.interface import gates as scheduling_gates

SERVING: Mapping[str, FeatureSpec] = {**admission_gates.SPECS, **scheduling_gates.SPECS}
"""The gates of `koordpy serve`."""


def chosen(own: Mapping[str, FeatureSpec], settings: Mapping[str, bool]) -> FeatureGates:
    """Return a part's own gates as `settings` have them.

    Raises FeatureGateError for a name that nobody knows, PluginLoadError when who knows cannot be found out.
    """
    foreign = [name for name in settings if name not in own and name not in ("AllAlpha", "AllBeta")]
    if foreign:
        known = _known()
        for name in foreign:
            if name not in known:
                raise FeatureGateError(
                    f"unrecognized feature gate {name!r}; known gates: {', '.join(sorted(known))}, AllAlpha, "
                    f"AllBeta"
                )
    return FeatureGates(own, {name: on for name, on in settings.items() if name not in foreign})


def _known() -> Mapping[str, FeatureSpec]:
    parts = (SERVING, ControllerRegistry.installed().specs, QOSPlugins.installed().gates().specs)
    return {name: spec for part in parts for name, spec in part.items()}
