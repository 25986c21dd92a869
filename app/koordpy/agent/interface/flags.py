"""Flags of QoS plugins: declared by the plugins, set on the command line or in the configuration file.

Names and value formats are those of koordlet's flags, so that a koordlet's command line works unchanged.
"""

import re
import reprlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from koordpy.lib import duration, go_number, int64
from koordpy.lib.nearest import suggestion

from .koordlets_flags import reason_against

V = TypeVar("V", int, float, bool, str, timedelta)

FlagValue = int | float | bool | str | timedelta

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_DURATION = int64.MAX / duration.SECOND
"""Seconds; 292 years."""


class FlagError(ValueError):
    """A flag that is not declared, is declared twice, or has a value of the wrong type."""


@dataclass(frozen=True)
class Flag:
    """A flag; the type of its values is the type of the default."""

    name: str
    default: FlagValue
    description: str

    def parse(self, given: FlagValue) -> FlagValue:
        """Return a value of the flag's type; text is read as on a koordlet's command line.

        Numbers are seconds where a duration is wanted. Raises FlagError.
        """
        wanted = type(self.default)
        value = _read(given, wanted) if isinstance(given, str) else _converted(given, wanted)
        if type(value) is not wanted:
            raise FlagError(self._unfit(given))
        return value

    def _unfit(self, given: FlagValue) -> str:
        expected = (
            "duration, such as 90s or 1h30m"
            if type(self.default) is timedelta
            else type(self.default).__name__
        )
        return f"flag {self.name}: got {reprlib.repr(given)}, expected {expected}"


def _read(text: str, wanted: type[FlagValue]) -> FlagValue | None:
    """Read a text as Go's package flag does; None if it is no value of that type."""
    if wanted is timedelta:
        try:
            return timedelta(microseconds=duration.parse(text) / 1000)
        except ValueError:
            return None
    if wanted is bool:
        return go_number.parse_bool(text)
    if wanted is int:
        return int64.parse_any_base(text)
    return go_number.parse_float(text) if wanted is float else text


def _converted(given: FlagValue, wanted: type[FlagValue]) -> FlagValue | None:
    """Convert a value of a configuration file; None if it does not fit the type."""
    if type(given) is int and not int64.fits(given):
        return None
    if type(given) is int and wanted is float:
        return float(given)
    if type(given) in (int, float) and wanted is timedelta:
        seconds = float(given)  # type: ignore[arg-type]
        return timedelta(seconds=seconds) if abs(seconds) < _LONGEST_DURATION else None
    return given


class FlagSet:
    """The flags of all plugins of a node."""

    def __init__(self) -> None:
        self._flags: dict[str, Flag] = {}
        self._values: dict[str, FlagValue] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._flags

    def copy(self) -> "FlagSet":
        """Return the same flags and values in a set of their own."""
        made = FlagSet()
        made._flags, made._values = dict(self._flags), dict(self._values)
        return made

    def declare(self, name: str, default: FlagValue, description: str) -> None:
        """Declare a flag. Raises FlagError for a bad name, or another default than declared before."""
        if not _NAME.fullmatch(name):
            raise FlagError(f"flag {name!r}: expected lower case words joined by hyphens")
        known = self._flags.get(name)
        if known is not None and known.default != default:
            raise FlagError(f"flag {name} is declared twice, with defaults {known.default!r} and {default!r}")
        self._flags[name] = Flag(name, default, description)

    def set(self, name: str, value: FlagValue) -> None:
        """Set a declared flag. Raises FlagError for an unknown name or a value of another type."""
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(reason_against(name) or f"unknown flag {name!r}; {suggestion(name, self._flags)}")
        self._values[name] = flag.parse(value)

    def is_given(self, name: str) -> bool:
        """Return whether a flag was set, to whatever value."""
        return name in self._values

    def integer(self, name: str) -> int:
        """Return the value of an integer flag. Raises FlagError for another type or an undeclared flag."""
        return self._value(name, int)

    def number(self, name: str) -> float:
        """Return the value of a flag that is a floating point number. Raises FlagError."""
        return self._value(name, float)

    def boolean(self, name: str) -> bool:
        """Return the value of a boolean flag. Raises FlagError."""
        return self._value(name, bool)

    def text(self, name: str) -> str:
        """Return the value of a text flag. Raises FlagError."""
        return self._value(name, str)

    def duration(self, name: str) -> timedelta:
        """Return the value of a duration flag. Raises FlagError."""
        return self._value(name, timedelta)

    @property
    def flags(self) -> list[Flag]:
        """All flags, by name."""
        return [self._flags[name] for name in sorted(self._flags)]

    @property
    def values(self) -> dict[str, FlagValue]:
        """All flags with their current values."""
        return {flag.name: self._values.get(flag.name, flag.default) for flag in self.flags}

    def _value(self, name: str, wanted: type[V]) -> V:
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(f"flag {name!r} was not declared")
        value = self._values.get(name, flag.default)
        if type(value) is not wanted:
            raise FlagError(f"flag {name} is no {wanted.__name__}: {value!r}")
        return value
