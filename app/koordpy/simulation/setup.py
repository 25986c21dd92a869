"""One scheduler setup, described in a scenario or a separate file."""

from pathlib import Path
from typing import Any, Final

from pydantic import Field, model_validator

from koordpy.api import config_document, config_file, config_model
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.api.field_error import FieldError

API_VERSION: Final = "simulation.koordpy.dev/v1alpha1"
KIND: Final = "SchedulerSetup"

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
    controllers: tuple[str, ...] = Field(default=("*",), strict=False)
    """Koordinator's `--controllers`; empty: none."""
    descheduler: Source | None = None
    """A DeschedulerConfiguration; None: no descheduler."""
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
        return setup.model_copy(
            update={
                name: _beside(path, getattr(setup, name))
                for name in ("kube_scheduler", "profiles", "descheduler")
            }
        )
    except ConfigError as error:
        raise error.under(path) from None


def _beside(path: Path, source: Source | None) -> Source | None:
    if source is None or source.file is None:
        return source
    return source.model_copy(update={"file": str((path.parent / source.file).absolute())})
