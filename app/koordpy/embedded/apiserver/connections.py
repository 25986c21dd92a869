"""The open connections of the API server, and how much all of them together may hold.

Every process that can reach the port can open connections, send heads and bodies without an end, pipeline
requests and not read the answers. A single connection is bounded by refusing, or by not reading on
(`connection.py`); all together are bounded here, by closing those that have made others wait for the longest
time.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that clients may have.

    Of one request: `head` bytes of its first line and header fields, `url` bytes, `fields` header fields.
    Of all clients: `connections`, `received` bytes of requests without an answer, `unread` bytes of answers.
    In seconds: `slow` for a request from its first byte to its last, `stuck` for an answer of which nothing
    is read, `idle` between requests.
    """

    head: int = 64 << 10
    url: int = 32 << 10
    fields: int = 100
    connections: int = 1000
    received: int = 48 << 20
    unread: int = 64 << 20
    slow: float = 30.0
    stuck: float = 60.0
    idle: float = 600.0


class Held(Protocol):
    """What the bounds need to know of a connection."""

    @property
    def idle(self) -> bool:
        """Whether the client has neither sent a part of a request nor waits for an answer."""

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""

    held: int
    requests: int
    since: float
    stuck_since: float | None

    def is_slow(self, now: float) -> bool:
        """Whether the client takes too long for a request."""

    def is_stuck(self, now: float) -> bool:
        """Whether the client has not read anything for too long."""

    def close(self, abort: bool = False) -> None:
        """Close the connection."""


class Connections:
    """The open connections of a listener. `names` are those of `koordpy.lib.request_origin`."""

    def __init__(self, limits: Limits | None = None, names: frozenset[str] | None = frozenset()) -> None:
        self.limits = limits or Limits()
        self.names = names
        self.received = 0
        self._open: dict[Held, None] = {}

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Held) -> None:
        """Add a new connection, which replaces the one that is idle for the longest time, or is closed."""
        self._open[connection] = None
        if len(self._open) > self.limits.connections:
            idle = [other for other in self._open if other.idle and other is not connection]
            victim = min(idle, key=lambda other: (other.requests > 0, other.since), default=connection)
            self._abort([victim], f"more than {self.limits.connections} connections")

    def discard(self, connection: Held) -> None:
        """Remove a connection."""
        self._open.pop(connection, None)

    def relieve_received(self) -> None:
        """Close connections with unfinished requests, the oldest first, until the others fit."""
        held = sorted((other for other in self._open if other.held), key=lambda other: other.since)
        while self.received > self.limits.received and held:
            self._abort([held.pop(0)], f"more than {self.limits.received} bytes of unfinished requests")

    def relieve_unread(self) -> None:
        """Close connections that do not read their answers, the oldest first, until the others fit."""
        stuck = sorted(
            (other for other in self._open if other.stuck_since is not None),
            key=lambda other: other.stuck_since or 0.0,
        )
        total = sum(other.unread for other in stuck)
        while total > self.limits.unread and len(stuck) > 1:
            victim = stuck.pop(0)
            total -= victim.unread
            self._abort([victim], f"more than {self.limits.unread} bytes of unread answers")

    def sweep(self, now: float) -> None:
        """Close connections that take too long."""
        limits = self.limits
        self._abort([c for c in self._open if c.is_slow(now)], f"a request took over {limits.slow:g} s")
        self._abort([c for c in self._open if c.is_stuck(now)], f"not read from for {limits.stuck:g} s")
        for connection in list(self._open):
            if connection.idle and now - connection.since > limits.idle:
                connection.close()

    def _abort(self, connections: list[Held], reason: str) -> None:
        for connection in connections:
            connection.close(abort=True)
            self.discard(connection)
        if connections:
            log.warning("closed %d connections of clients: %s", len(connections), reason)
