"""The CPU burst settings of a single pod, and how they combine with those of its node.

Source: Koordinator, `apis/slo/v1alpha1/pod.go` and `pkg/koordlet/qosmanager/plugins/cpuburst`.
"""

from ..core import Pod
from ..extension import ANNOTATION_POD_CPU_BURST
from .cpu_burst import CPUBurstConfig
from .reading import parse, read


def of_pod(pod: Pod) -> CPUBurstConfig | None:
    """Return the settings in a pod's annotation, None without one. Raises DecodeError (a ValueError)."""
    text = pod.metadata.annotations.get(ANNOTATION_POD_CPU_BURST)
    if text is None:
        return None
    return read(CPUBurstConfig, parse(text), f"annotation {ANNOTATION_POD_CPU_BURST}")


def over(upper: CPUBurstConfig, lower: CPUBurstConfig) -> CPUBurstConfig:
    """Return the settings of `lower` with those that are set in `upper`; ones of subclasses are dropped."""
    values = {}
    for name in CPUBurstConfig.__struct_fields__:
        value = getattr(upper, name)
        values[name] = getattr(lower, name) if value is None or value == "" else value
    return CPUBurstConfig(**values)
