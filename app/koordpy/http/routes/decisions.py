"""`/apis/v1/decisions`: the latest scheduling attempts, and with `?watch=true` new ones as they happen.

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
"""Seconds without an attempt after which a watch sends an empty event."""

_DROPPED: Final = msgspec.json.encode({"message": "dropped: this reader has fallen too far behind"})


@dataclass(frozen=True)
class Filter:
    """The attempts that a caller selects; empty values match all."""

    namespace: str = ""
    pod: str = ""
    outcomes: frozenset[Outcome] = frozenset()
    reservation: str = ""

    def __call__(self, decision: Decision) -> bool:
        """Return whether an attempt matches."""
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
        matches = Filter(namespace, pod, frozenset(outcome or ()), reservation)
        found, opened = decisions(), streams()
        as_events = EVENTS in request.headers.get("accept", "")
        if not (watch or as_events):
            return [] if found is None else found.recent(limit or 50, matches)
        if found is None or opened is None:
            raise HTTPException(404, "nothing to watch: this process does not serve the extender")
        try:
            stream = opened.open()
        except TooManyStreams as error:
            raise HTTPException(429, str(error)) from None
        earlier = [] if limit is None else found.recent(limit, matches)[::-1]
        events = _events(opened, stream, matches, earlier, _event if as_events else _line)
        return StreamingResponse(
            events,
            media_type=EVENTS if as_events else LINES,
            headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
        )

    @routes.get("/apis/v1/decisions/{namespace}/{pod}")
    async def decisions_of(namespace: str, pod: str) -> list[DecisionModel]:
        known = decisions()
        found = [] if known is None else known.of(namespace, pod)
        if not found:
            reason = "this process does not serve the extender" if known is None else "none is remembered"
            raise HTTPException(404, f"no scheduling decision about pod {namespace}/{pod}: {reason}")
        return found

    return routes


async def _events(
    streams: DecisionStreams,
    stream: DecisionStream,
    matches: Filter,
    earlier: list[DecisionModel],
    form: Callable[[str, bytes], bytes],
) -> AsyncIterator[bytes]:
    try:
        for model in earlier:
            yield form("decision", model.model_dump_json().encode())
        while not stream.is_closed:
            new = await stream.take(HEARTBEAT)
            if not (new or stream.is_closed):
                yield form("", b"")
            for decision in new:
                if matches(decision):
                    yield form("decision", decision.model().model_dump_json().encode())
        if stream.is_behind:
            yield form("dropped", _DROPPED)
    finally:
        streams.end(stream)


def _line(event: str, data: bytes) -> bytes:
    return data + b"\n"


def _event(event: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data) if event else b":\n\n"
