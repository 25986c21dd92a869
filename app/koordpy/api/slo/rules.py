"""The valid values of a strategy's fields, as annotations of the fields.

`Annotated[Int64, AtLeast(0), Above("lower")]`: the rules of a field are checked in order and the first
violation is reported. Decoding does not enforce them: Koordinator's controllers and agents accept any value,
and only its webhook validates (`validation`). Texts and rules are those of Koordinator,
`pkg/util/sloconfig/validator.go` and the `validate` tags of `apis/slo/v1alpha1` and `apis/configuration`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, runtime_checkable

import msgspec

from koordpy.lib import duration

from ..quantity import from_wire


@runtime_checkable
class Rule(Protocol):
    """A rule for a value."""

    def problem(self, value: Any, others: Mapping[str, Any]) -> str:
        """Return the error in a value, "" if it is valid.

        `others` are the fields of the strategy that are set, by their names in JSON.
        """
        ...


@runtime_checkable
class Form(Protocol):
    """A format in which several texts may mean the same."""

    def canonical(self, value: Any) -> Any:
        """Return the value as Go writes it, unchanged if of another type. Raises ValueError."""
        ...


@dataclass(frozen=True)
class AtLeast:
    """The value is not below a bound."""

    bound: int

    def problem(self, value: int | float, others: Mapping[str, Any]) -> str:
        """Return the error in a value."""
        return "" if value >= self.bound else f"must be {self.bound:,} or greater"


@dataclass(frozen=True)
class AtMost:
    """The value is not above a bound."""

    bound: int

    def problem(self, value: int | float, others: Mapping[str, Any]) -> str:
        """Return the error in a value."""
        return "" if value <= self.bound else f"must be {self.bound:,} or less"


@dataclass(frozen=True)
class GreaterThan:
    """The value is above a bound."""

    bound: int

    def problem(self, value: int | float, others: Mapping[str, Any]) -> str:
        """Return the error in a value."""
        return "" if value > self.bound else f"must be greater than {self.bound:,}"


@dataclass(frozen=True)
class Above:
    """The value is above that of another field of the strategy, which must also be set."""

    field: str

    def problem(self, value: int, others: Mapping[str, Any]) -> str:
        """Return the error in a value."""
        other = others.get(self.field)
        is_above = other is not None and value > other
        return "" if is_above else f"must be greater than {go_name(self.field)}"


@dataclass(frozen=True)
class Below:
    """The value is below that of another field of the strategy, which must also be set."""

    field: str

    def problem(self, value: int, others: Mapping[str, Any]) -> str:
        """Return the error in a value."""
        other = others.get(self.field)
        is_below = other is not None and value < other
        return "" if is_below else f"must be less than {go_name(self.field)}"


class _Quantity:
    def canonical(self, value: Any) -> Any:
        """Return the canonical text of a quantity."""
        is_amount = isinstance(value, str | int | float) and not isinstance(value, bool)
        return str(from_wire(value)) if is_amount else value


class _Duration:
    def canonical(self, value: Any) -> Any:
        """Return the canonical text of a duration."""
        return duration.format(duration.parse(value)) if isinstance(value, str) else value


Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
IntOrString = Int32 | str
Percent = Annotated[Int64, AtLeast(0), AtMost(100)]
Flag = Annotated[Int64, AtLeast(0), AtMost(1)]
"""A kernel switch: 0 or 1."""
WireQuantity = Annotated[str | int | float, _Quantity()]
"""An amount; once read, its canonical text."""
WireDuration = Annotated[str, _Duration()]
"""A duration (`5m0s`); once read, its canonical text."""

_INITIALISMS: Final = ("cpu", "cat", "mba", "cfs", "lsr", "ls", "be")


def go_name(name: str) -> str:
    """Return the Go name of a JSON name, as used in messages and their paths."""
    prefix = next((prefix for prefix in _INITIALISMS if name.startswith(prefix)), name[:1])
    return prefix.upper() + name[len(prefix) :]
