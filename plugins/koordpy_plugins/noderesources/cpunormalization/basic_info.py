"""The model of a node's CPUs, and its ratio.

Source: Koordinator, `apis/extension/cpu_normalization.go`.
"""

import msgspec

from koordpy.api import extension
from koordpy.api.decoding import DecodeError
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.slo import reading
from koordpy.api.slo.node_resources import CPUNormalizationStrategy


class InvalidInfo(ValueError):
    """The annotation cannot be read."""


class CPUBasicInfo(msgspec.Struct, rename="camel", frozen=True):
    """What of a node's CPUs decides about the ratio."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False


def info_of(topology: NodeResourceTopology) -> CPUBasicInfo | None:
    """Return what the annotation says, None without it. Raises InvalidInfo."""
    text = topology.metadata.annotations.get(extension.ANNOTATION_CPU_BASIC_INFO)
    if text is None:
        return None
    try:
        return reading.read(CPUBasicInfo, reading.parse(text))
    except (DecodeError, msgspec.ValidationError) as error:
        raise InvalidInfo(f"annotation {extension.ANNOTATION_CPU_BASIC_INFO}: {error}") from None


def ratio_of(info: CPUBasicInfo, strategy: CPUNormalizationStrategy) -> float | None:
    """Return the ratio of the model in its mode, else the default ratio; None if there is neither."""
    model = strategy.ratio_model.get(info.cpu_model)
    ratio = None
    if model is not None:
        if info.hyper_thread_enabled and info.turbo_enabled:
            ratio = model.hyper_thread_turbo_enabled_ratio
        elif info.hyper_thread_enabled:
            ratio = model.hyper_thread_enabled_ratio
        elif info.turbo_enabled:
            ratio = model.turbo_enabled_ratio
        else:
            ratio = model.base_ratio
    return strategy.default_ratio if ratio is None else ratio
