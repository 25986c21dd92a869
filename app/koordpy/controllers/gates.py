"""The feature gates of Koordinator's controllers, with its names and defaults.

Only gates of what is built here are known: a gate that would switch nothing is refused by name. Source:
Koordinator, `pkg/features/features.go`.
"""

from koordpy.lib.feature_gates import FeatureSpec, Stage

COLOCATION_PROFILE_CONTROLLER = "ColocationProfileController"

SPECS: dict[str, FeatureSpec] = {COLOCATION_PROFILE_CONTROLLER: FeatureSpec(False, Stage.ALPHA)}
