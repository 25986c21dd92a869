"""Writes that the watch has not shown yet, so that no object is made or deleted twice.

A controller counts its objects in its view of the cluster, which is behind its own writes. It announces every
creation and deletion first, and does not count again until all of them have been seen. A write that is not
seen in time (it failed without an answer) is given up after the view has caught up.
"""

from collections.abc import Iterable

from koordpy.lib.clock import Clock

PATIENCE = 30.0
"""Seconds after which an announced write that was not seen is checked."""


class Expectations:
    """Announced and unseen writes by owner. Owners and objects are named by keys."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unseen: dict[str, dict[str, float]] = {}

    def announce(self, owner: str, objects: Iterable[str]) -> None:
        """Expect objects to be seen as created, or as deleted."""
        now = self._clock.monotonic()
        unseen = self._unseen.setdefault(owner, {})
        unseen.update((key, now) for key in objects)

    def settle(self, owner: str, key: str) -> None:
        """Stop expecting an object: it was seen, or its write failed."""
        unseen = self._unseen.get(owner)
        if unseen is not None:
            unseen.pop(key, None)
            if not unseen:
                del self._unseen[owner]

    def doubt(self, owner: str) -> None:
        """Check an owner's unseen writes at once: one of them got no clear answer."""
        unseen = self._unseen.get(owner, {})
        unseen.update(dict.fromkeys(unseen, -PATIENCE))

    def forget(self, owner: str) -> None:
        """Expect nothing for an owner."""
        self._unseen.pop(owner, None)

    def pending(self, owner: str) -> float | None:
        """Return the seconds after which the oldest unseen write is checked; None if there is none."""
        unseen = self._unseen.get(owner)
        if not unseen:
            return None
        return max(PATIENCE - (self._clock.monotonic() - min(unseen.values())), 0.0)
