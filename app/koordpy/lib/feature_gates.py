"""Feature gates: named switches with a default, a stage and one command-line syntax.

A component declares its gates once and calls `enabled` where behaviour branches. The text form is that of
Kubernetes components, `A=true,B=false`, so that flags work unchanged; `AllAlpha` and `AllBeta` set every gate
of a stage that is not named itself.

Source: Kubernetes, `k8s.io/component-base/featuregate`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .nearest import suggestion

LISTED: Final = "`koordpy features` lists the gates"


class Stage(StrEnum):
    """How mature a feature is."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"


@dataclass(frozen=True)
class FeatureSpec:
    """A gate: whether it is on by default, and whether that may be changed."""

    default: bool
    stage: Stage
    locked: bool = False


class FeatureGateError(ValueError):
    """A gate that does not exist, a value that is not a boolean, or a gate that is locked."""


_STAGE_SWITCHES = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class FeatureGates:
    """The gates of one component and their values."""

    def __init__(self, specs: Mapping[str, FeatureSpec], settings: Mapping[str, bool] | None = None) -> None:
        self.specs = dict(specs)
        self._enabled = {name: spec.default for name, spec in self.specs.items()}
        if settings:
            self.set(settings)

    def enabled(self, name: str) -> bool:
        """Return whether a gate is on. Raises KeyError for a gate that was never declared."""
        return self._enabled[name]

    def __contains__(self, name: str) -> bool:
        return name in self._enabled

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Yield every gate with its present value, sorted by name."""
        return iter(sorted(self._enabled.items()))

    def set(self, settings: Mapping[str, bool]) -> None:
        """Set gates; either all of `settings` are applied or, on an error, none.

        Gates named in the same call take precedence over `AllAlpha` and `AllBeta`.
        Raises FeatureGateError.
        """
        fresh: dict[str, bool] = {}
        for name, on in settings.items():
            if name in _STAGE_SWITCHES:
                stage = _STAGE_SWITCHES[name]
                fresh.update(
                    {
                        gate: on
                        for gate, spec in self.specs.items()
                        if spec.stage is stage and not spec.locked and gate not in settings
                    }
                )
                continue
            spec = self.specs.get(name)
            if spec is None:
                raise unrecognized(name, self.specs)
            if spec.locked and on != spec.default:
                raise FeatureGateError(f"feature gate {name!r} is locked to {_text(spec.default)}")
            fresh[name] = on
        self._enabled.update(fresh)

    def set_from_text(self, text: str) -> None:
        """Set gates from `--feature-gates A=true,B=false`. Raises FeatureGateError."""
        self.set(parse(text))


def unrecognized(name: str, known: Iterable[str]) -> FeatureGateError:
    """Return the error for a gate that is not among the known ones."""
    hint = suggestion(name, [*known, *_STAGE_SWITCHES], LISTED)
    return FeatureGateError(f"unrecognized feature gate {name!r}; {hint}")


def parse(text: str) -> dict[str, bool]:
    """Read `A=true,B=false`; the last value of a repeated gate counts. Raises FeatureGateError."""
    settings: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise FeatureGateError(f"feature gate {name!r}: expected {name}=true or {name}=false")
        if value not in _BOOLEANS:
            raise FeatureGateError(f"feature gate {name!r}: expected true or false, got {value!r}")
        settings[name] = _BOOLEANS[value]
    return settings


def _text(on: bool) -> str:
    return "true" if on else "false"
