"""One scheduler setup, described in a scenario or a separate file."""

from pathlib import Path
from typing import Any, Final

from pydantic import Field, model_validator

from koordpy.api import config_document, config_file, config_model
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.api.field_error import FieldError

API_VERSION: Final = "simulation.koordpy.dev/v1alpha1"
KIND: Final = "SchedulerSetup"

AGENT_GATES: Final = ("BECPUSuppress", "BEMemoryEvict")
"""The feature gates of node agents that have an effect in a simulation."""

Document = dict[str, Any]


class Source(ConfigModel):
    """An object given inline (`manifest`), or in a `file`."""

    file: str | None = None
    manifest: Document | None = None

    @model_validator(mode="after")
    def _one(self) -> "Source":
        if (self.file is None) == (self.manifest is None):
            raise ValueError("expected either file or manifest")
        return self


class AgentSetup(ConfigModel):
    """The node agents, which enforce the NodeSLOs that the controllers write."""

    feature_gates: dict[str, bool] = {}
    """Gates of the node agent, of those that are simulated: BECPUSuppress and BEMemoryEvict."""

    @model_validator(mode="after")
    def _known(self) -> "AgentSetup":
        if unknown := sorted(set(self.feature_gates) - set(AGENT_GATES)):
            raise ValueError(f"featureGates: got {unknown[0]!r}, expected one of {', '.join(AGENT_GATES)}")
        return self


class SchedulerSetup(ConfigModel):
    """One scheduler setup: kube-scheduler's configuration, and the parts of koordpy."""

    name: str = "koordpy"
    kube_scheduler: Source | None = None
    """A KubeSchedulerConfiguration; by default the shipped one (without extenders where `koordpy` is off)."""
    koordpy: bool = True
    """Whether kube-scheduler calls koordpy's extender."""
    profiles: Source | None = None
    """The KubeSchedulerConfiguration of the extender; by default the shipped one."""
    webhooks: bool = True
    """Whether koordpy's webhooks are called."""
    controllers: tuple[str, ...] | None = Field(default=None, strict=False)
    """Koordinator's `--controllers`; empty: none. By default all, the SLO controllers only where there is a
    slo-controller-config: without one they would remove the batch and mid resources that nodes are given."""
    descheduler: Source | None = None
    """A DeschedulerConfiguration; None: no descheduler."""
    objects: tuple[Source, ...] = Field(default=(), strict=False)
    """Objects that exist from the start: slo-controller-config, profiles and the like."""
    agent: AgentSetup = AgentSetup()
    feature_gates: dict[str, bool] = {}


def load_setup(path: Path) -> SchedulerSetup:
    """Read one setup of a comparison, named after its file.

    It is a SchedulerSetup, or a KubeSchedulerConfiguration: kube-scheduler's where it has extenders, else the
    one of koordpy's extender. Files that a setup names are relative to it. Raises ConfigError, OSError.
    """
    try:
        document = config_document.load(config_file.read(path))
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind in ("KubeSchedulerConfiguration", "ConfigMap"):
            field = "kubeScheduler" if document.get("extenders") else "profiles"
            return config_model.read(
                SchedulerSetup, {"name": path.stem, field: {"file": str(path.absolute())}}
            )
        if kind != KIND:
            told = f"got {kind!r}, expected {KIND} or KubeSchedulerConfiguration"
            raise ConfigError(FieldError("kind", told))
        config_model.check_type(document, API_VERSION, KIND)
        fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
        setup = config_model.read(SchedulerSetup, {"name": path.stem, **fields})
        named = ("kube_scheduler", "profiles", "descheduler")
        beside = {name: _beside(path, getattr(setup, name)) for name in named}
        objects = tuple(_beside(path, source) for source in setup.objects)
        return setup.model_copy(update={**beside, "objects": objects})
    except ConfigError as error:
        raise error.under(path) from None


def _beside(path: Path, source: Source | None) -> Source | None:
    if source is None or source.file is None:
        return source
    return source.model_copy(update={"file": str((path.parent / source.file).absolute())})
