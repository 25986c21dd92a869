"""`/apis/v1/decisions`: the last scheduling attempts, and with `?watch=true` those that go on, as they do.

A watch is lines of JSON, or server-sent events for a caller that accepts `text/event-stream`.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from koordpy.scheduling.explain.decision_stream import DecisionStream, DecisionStreams, TooManyStreams
from koordpy.scheduling.explain.decisions import Decision, DecisionModel, Decisions, Outcome

from .parameters import known_parameters

EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"

HEARTBEAT: Final = 15.0
"""Seconds of silence after which a watch shows that it is alive."""

_DROPPED: Final = msgspec.json.encode({"message": "dropped: this reader has fallen too far behind"})


@dataclass(frozen=True)
class Wanted:
    """Which attempts somebody wants to see; empty values want all."""

    namespace: str = ""
    pod: str = ""
    outcomes: frozenset[Outcome] = frozenset()
    reservation: str = ""

    def __call__(self, decision: Decision) -> bool:
        """Return whether an attempt is wanted."""
        meta = decision.pod.metadata
        return (
            (not self.namespace or meta.namespace == self.namespace)
            and (not self.pod or meta.name == self.pod)
            and (not self.outcomes or decision.result in self.outcomes)
            and (not self.reservation or decision.reservation == self.reservation)
        )


def router(
    decisions: Callable[[], Decisions | None], streams: Callable[[], DecisionStreams | None]
) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])

    @routes.get("/apis/v1/decisions", response_model=list[DecisionModel])
    async def all_decisions(
        request: Request,
        limit: Annotated[int | None, Query(ge=1, le=10_000)] = None,
        namespace: str = "",
        pod: str = "",
        reservation: str = "",
        outcome: Annotated[list[Outcome] | None, Query()] = None,
        watch: bool = False,
    ) -> Any:
        wanted = Wanted(namespace, pod, frozenset(outcome or ()), reservation)
        found, opened = decisions(), streams()
        as_events = EVENTS in request.headers.get("accept", "")
        if not (watch or as_events):
            return [] if found is None else found.recent(limit or 50, wanted)
        if found is None or opened is None:
            raise HTTPException(404, "there is nothing to watch: the extender door is closed")
        try:
            stream = opened.open()
        except TooManyStreams as error:
            raise HTTPException(429, str(error)) from None
        earlier = [] if limit is None else found.recent(limit, wanted)[::-1]
        told = _told(opened, stream, wanted, earlier, _event if as_events else _line)
        return StreamingResponse(
            told,
            media_type=EVENTS if as_events else LINES,
            headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
        )

    @routes.get("/apis/v1/decisions/{namespace}/{pod}")
    async def decisions_of(namespace: str, pod: str) -> list[DecisionModel]:
        known = decisions()
        found = [] if known is None else known.of(namespace, pod)
        if not found:
            reason = "the extender door is closed" if known is None else "none is remembered"
            raise HTTPException(404, f"no scheduling decision about pod {namespace}/{pod}: {reason}")
        return found

    return routes


async def _told(
    streams: DecisionStreams,
    stream: DecisionStream,
    wanted: Wanted,
    earlier: list[DecisionModel],
    form: Callable[[str, bytes], bytes],
) -> AsyncIterator[bytes]:
    try:
        for model in earlier:
            yield form("decision", model.model_dump_json().encode())
        while not stream.is_closed:
            news = await stream.take(HEARTBEAT)
            if not (news or stream.is_closed):
                yield form("", b"")
            for decision in news:
                if wanted(decision):
                    yield form("decision", decision.model().model_dump_json().encode())
        if stream.is_behind:
            yield form("dropped", _DROPPED)
    finally:
        streams.end(stream)


def _line(event: str, data: bytes) -> bytes:
    return data + b"\n"


def _event(event: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data) if event else b":\n\n"
