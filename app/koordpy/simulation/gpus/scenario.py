"""The kind `GPUFillScenario`: cluster, trace, policies, seeds. `docs/fgd.md` describes it for users."""

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from koordpy.api import config_document, config_file, config_model
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.simulation.setup import API_VERSION as API_VERSION

KIND: Final = "GPUFillScenario"


class Policy(ConfigModel):
    """A plugin with Score that is installed (entry point group `koordpy.scheduling`)."""

    name: str = Field(min_length=1)
    plugin: str = ""
    """By default the name."""
    args: dict[str, Any] = {}
    """As in the `pluginConfig` of a profile."""


class GPUFillScenario(ConfigModel):
    """Pods that request GPUs arrive until their requests reach a share of the GPUs, and none ever leaves."""

    api_version: Literal["simulation.koordpy.dev/v1alpha1"]
    kind: Literal["GPUFillScenario"]
    name: str = Field(min_length=1)
    description: str = ""
    nodes: str
    """A table with the columns sn, cpu_milli, memory_mib, gpu, model; nodes without GPUs are left out."""
    trace: str
    """A table of pods: cpu_milli, memory_mib, num_gpu, gpu_milli and, if there is one, gpu_spec."""
    load: float = Field(default=1.3, gt=0, le=10, strict=False)
    """The share of all GPUs that the requests of the arriving pods reach."""
    typical: float = Field(default=0.95, gt=0, le=1, strict=False)
    """The share of the trace's pods whose requests are the typical ones, with regard to which GPUs are
    fragments."""
    seeds: tuple[int, ...] = Field(default=(0,), strict=False, min_length=1)
    """A run each, for every policy."""
    policies: tuple[Policy, ...] = Field(strict=False, min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> "GPUFillScenario":
        names = [policy.name for policy in self.policies]
        if len(set(names)) < len(names):
            raise ValueError("policies: expected names that differ")
        if len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise ValueError("seeds: expected numbers that differ and are not negative")
        return self


def is_kind(path: Path) -> bool:
    """Return whether a file holds this kind of scenario. Raises ConfigError naming the file; OSError."""
    try:
        document = config_document.load(config_file.read(path))
    except ConfigError as error:
        raise error.under(path) from None
    return isinstance(document, dict) and document.get("kind") == KIND


def load(path: Path) -> GPUFillScenario:
    """Read a scenario. Raises ConfigError naming the file, the path and what was expected; OSError."""
    try:
        document = config_document.parse(config_file.read(path), KIND)
        config_model.check_type(document, API_VERSION, KIND)
        return config_model.read(GPUFillScenario, document)
    except ConfigError as error:
        raise error.under(path) from None
