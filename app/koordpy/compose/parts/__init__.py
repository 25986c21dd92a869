"""The parts, one a module, found by name.

They are imported when a process has them, so that a process needs no library of the others.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Final, cast

from koordpy.compose.part import Part

_WHERE: Final[Mapping[str, str]] = {
    "extender": "extender:ExtenderPart",
    "reservations": "reservations:ReservationsPart",
    "descheduler": "descheduler:DeschedulerPart",
    "controllers": "controllers:ControllersPart",
    "agent": "node_agent:NodeAgentPart",
    "admission": "admission:AdmissionPart",
    "debug": "debug:DebugPart",
}
"""In the order in which they are prepared and started: debug shows the others, and the start of admission
waits for a certificate.
"""

_BRINGS: Final[Mapping[str, str]] = {"extender": "reservations"}
"""Reservations are scheduled where the extender is: with the same plugin instances, behind the same fence."""


def load(name: str) -> type[Part]:
    """Return the part of a name. Raises KeyError."""
    module, _, attribute = _WHERE[name].partition(":")
    return cast(type[Part], getattr(import_module(f"{__name__}.{module}"), attribute))


def in_order(names: Iterable[str]) -> Iterator[type[Part]]:
    """Yield the parts of these names, and those that come with them. Raises KeyError."""
    wanted = set(names)
    if strangers := wanted - set(_WHERE):
        raise KeyError(min(strangers))
    wanted |= {_BRINGS[name] for name in wanted if name in _BRINGS}
    yield from (load(name) for name in _WHERE if name in wanted)
