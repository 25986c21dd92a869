"""Scaling of a node's resources: CPU normalization, and amplification.

Source: Koordinator, `apis/configuration/slo_controller_config.go` (`CPUNormalizationStrategy`,
`ResourceAmplificationStrategy`).
"""

from .strategy import Strategy


class ModelRatioCfg(Strategy, frozen=True):
    """The ratios of one CPU model, by whether hyper-threading and turbo are on."""

    base_ratio: float | None = None
    hyper_thread_enabled_ratio: float | None = None
    turbo_enabled_ratio: float | None = None
    hyper_thread_turbo_enabled_ratio: float | None = None


class CPUNormalizationStrategy(Strategy, frozen=True):
    """Ratios by CPU model, and a default ratio."""

    enable: bool | None = None
    default_ratio: float | None = None
    ratio_model: dict[str, ModelRatioCfg] = {}


class ResourceAmplificationStrategy(Strategy, frozen=True):
    """Ratios by resource."""

    enable: bool | None = None
    resource_amplification_ratio: dict[str, float] = {}
