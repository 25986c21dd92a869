"""The memory settings of a single pod, and how they combine with those of its node.

Source: Koordinator, `apis/slo/v1alpha1/pod.go` (`PodMemoryQOSConfig`) and
`pkg/koordlet/qosmanager/plugins/cgreconcile`.
"""

from typing import Final

import msgspec

from ..core import Pod
from .reading import parse, read
from .resource_qos import MemoryQOS

ANNOTATION: Final = "koordinator.sh/memoryQOS"

DEFAULT: Final = "default"
"""The node's settings, overridden field by field; an empty policy means the same."""
AUTO: Final = "auto"
"""The built-in settings of the pod's class, even where the node has switched the feature off."""
NONE: Final = "none"
"""Nothing: neutral settings, whatever else the annotation says."""


class PodMemoryQOSConfig(MemoryQOS, frozen=True):
    """A policy and settings that override those of the policy."""

    policy: str = ""

    def over(self, lower: MemoryQOS) -> MemoryQOS:
        """Return other settings with those that are set here."""
        given = {name: getattr(self, name) for name in MemoryQOS.__struct_fields__}
        return msgspec.structs.replace(
            lower, **{name: value for name, value in given.items() if value is not None}
        )


def of_pod(pod: Pod) -> PodMemoryQOSConfig | None:
    """Return the settings in a pod's annotation, None without one. Raises DecodeError (a ValueError)."""
    text = pod.metadata.annotations.get(ANNOTATION)
    return None if text is None else read(PodMemoryQOSConfig, parse(text), f"annotation {ANNOTATION}")
