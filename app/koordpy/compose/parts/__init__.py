"""The parts, one per module, found by name.

They are imported on demand, so that a process does not need the libraries of other parts.
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
"""The order of preparation and start: debug shows the others, and the start of admission waits for a
certificate.
"""

_BRINGS: Final[Mapping[str, str]] = {"extender": "reservations"}
"""Reservations are scheduled in the extender's process, with its plugin instances and behind its fence."""


def load(name: str) -> type[Part]:
    """Return the part of a name. Raises KeyError."""
    module, _, attribute = _WHERE[name].partition(":")
    return cast(type[Part], getattr(import_module(f"{__name__}.{module}"), attribute))


def in_order(names: Iterable[str]) -> Iterator[type[Part]]:
    """Yield the parts of these names, and those that belong to them. Raises KeyError."""
    wanted = set(names)
    if strangers := wanted - set(_WHERE):
        raise KeyError(min(strangers))
    wanted |= {_BRINGS[name] for name in wanted if name in _BRINGS}
    yield from (load(name) for name in _WHERE if name in wanted)
