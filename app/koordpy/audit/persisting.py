"""Findings that last: objects of several types are not of one moment, so what is seen once may be over."""

from collections.abc import Iterable

from .finding import Finding


class Persisting:
    """Tells findings once they have been there for so many seconds; each is told once while it lasts."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[tuple[str, ...], float] = {}
        self._told: set[tuple[str, ...]] = set()

    def forget(self, identities: Iterable[tuple[str, ...]]) -> None:
        """Tell findings anew once they have lasted from now on."""
        for identity in identities:
            self._told.discard(identity)
            self._since.pop(identity, None)

    def of(self, findings: Iterable[Finding], now: float) -> list[Finding]:
        """Return those of all findings of this moment that have lasted, and were not returned before."""
        there = {found.identity: found for found in findings}
        self._since = {identity: self._since.get(identity, now) for identity in there}
        self._told &= there.keys()
        lasting = [
            identity
            for identity, since in self._since.items()
            if identity not in self._told and now - since >= self._seconds
        ]
        self._told.update(lasting)
        return [there[identity] for identity in lasting]
