"""Pressure (PSI) of latency-sensitive pods, for plugins that act before their next round."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PressureEvent:
    """Tasks of a cgroup directory had to wait for a resource: `cpu`, `memory` or `io`."""

    resource: str
    directory: str


PressureCallback = Callable[[PressureEvent], None]


class PressureSource(Protocol):
    """Reports pressure of latency-sensitive groups: the Burstable pods, and each Guaranteed pod."""

    def subscribe(self, resources: Collection[str], callback: PressureCallback) -> None:
        """Call `callback` on the event loop whenever a group waits for one of the resources.

        That is about once every half second while it lasts. Called in `setup` or later. Raises ValueError for
        an unknown resource.
        """
        ...
