"""Attempts as they go on, for whoever watches from outside.

A reader is told of an attempt whenever it has got further; steps that follow each other faster than the
reader takes them are told as one. What a reader has not taken yet is bounded: one that falls behind is
dropped, and nothing here ever waits for a reader.
"""

import asyncio
from collections.abc import Callable, Sequence

from .decisions import OUTCOMES, Decision, Decisions, Step

MOST_BEHIND = 1000
"""Attempts that a reader may not have taken yet."""

MOST_STREAMS = 32

GATHER = 0.05
"""Seconds in which what happens is told together."""


class TooManyStreams(Exception):
    """No further reader is taken."""


class DecisionStream:
    """What one reader has still to be told. `is_behind` says that it was dropped."""

    def __init__(self) -> None:
        self._news: dict[int, Decision] = {}
        self._arrived = asyncio.Event()
        self.is_behind = False
        self.is_closed = False

    def observe(self, decision: Decision, step: Step) -> None:
        """Take in that an attempt has got further."""
        if step not in OUTCOMES or self.is_closed:
            return
        self._news.pop(decision.number, None)
        self._news[decision.number] = decision
        if len(self._news) > MOST_BEHIND:
            self.is_behind = True
            self.close()
        self._arrived.set()

    def close(self) -> None:
        """Tell nothing more."""
        self.is_closed = True
        self._news.clear()
        self._arrived.set()

    async def take(self, seconds: float) -> Sequence[Decision]:
        """Wait for news; return them, the latest last. Nothing when none came in time, or it was closed."""
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
        self._open[stream] = self._decisions.listen(stream.observe)
        return stream

    def end(self, stream: DecisionStream) -> None:
        """Forget a stream whose reader is gone."""
        stop = self._open.pop(stream, None)
        if stop is not None:
            stop()
        stream.close()

    def close(self) -> None:
        """End all streams: the process is stopping."""
        for stream in list(self._open):
            self.end(stream)
