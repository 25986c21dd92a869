"""A live stream of scheduling attempts, for clients of the debug API.

A reader receives an attempt whenever it has progressed; steps that follow each other faster than the reader
reads are merged. Each reader's backlog is bounded: a reader that falls behind is dropped, and nothing here
ever waits for a reader.
"""

import asyncio
from collections.abc import Callable, Sequence

from .decisions import OUTCOMES, Decision, Decisions, Step

MOST_BEHIND = 1000
"""The longest backlog of a reader, in attempts."""

MOST_STREAMS = 32

GATHER = 0.05
"""Seconds within which steps are merged."""


class TooManyStreams(Exception):
    """No further reader is accepted."""


class DecisionStream:
    """The backlog of one reader. `is_behind` means that it was dropped."""

    def __init__(self) -> None:
        self._news: dict[int, Decision] = {}
        self._arrived = asyncio.Event()
        self.is_behind = False
        self.is_closed = False

    def observe(self, decision: Decision, step: Step) -> None:
        """Record that an attempt has progressed."""
        if step not in OUTCOMES or self.is_closed:
            return
        self._news.pop(decision.number, None)
        self._news[decision.number] = decision
        if len(self._news) > MOST_BEHIND:
            self.is_behind = True
            self.close()
        self._arrived.set()

    def close(self) -> None:
        """Close the stream."""
        self.is_closed = True
        self._news.clear()
        self._arrived.set()

    async def take(self, seconds: float) -> Sequence[Decision]:
        """Wait for changed attempts; return them, the latest last. Empty after a timeout or once closed."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return ()
        if not self.is_closed:
            await asyncio.sleep(GATHER)
        self._arrived.clear()
        news, self._news = self._news, {}
        return list(news.values())


class DecisionStreams:
    """The readers of a process."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._open: dict[DecisionStream, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self) -> DecisionStream:
        """Return a new stream. Raises TooManyStreams."""
        if len(self._open) >= MOST_STREAMS:
            raise TooManyStreams(f"{MOST_STREAMS} streams of decisions are open already")
        stream = DecisionStream()
        self._open[stream] = self._decisions.listen(stream.observe, keeps=True)
        return stream

    def end(self, stream: DecisionStream) -> None:
        """Remove a stream whose reader has disconnected."""
        stop = self._open.pop(stream, None)
        if stop is not None:
            stop()
        stream.close()

    def close(self) -> None:
        """End all streams: the process is stopping."""
        for stream in list(self._open):
            self.end(stream)
