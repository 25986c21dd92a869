"""Reads one request at a time from a connection.

A parser that gets everything that has arrived begins all pipelined requests at once. Here it gets the bytes
of one request; the rest waits, unparsed, until that request has been answered and the caller has read the
answer, and until other connections have had their turn.
"""

import asyncio
from abc import ABC, abstractmethod
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl

from .protocol import Protocol

_CHUNKED_PART: Final = 2048
"""Bytes that are parsed at once of a chunked body, whose end is not known in advance."""

_HEAD_PART: Final = 8192
"""Bytes that are parsed at once of header fields without an end."""

_END_OF_HEAD: Final = b"\r\n\r\n"


class Phase(Enum):
    """What a connection waits for: a part of the request, or the response."""

    IDLE = "request"
    HEAD = "header fields"
    BODY = "body"
    RESPONSE = "response"


_IDLE, _HEAD, _BODY, _RESPONSE = Phase  # short names: they are read for every header field


class Flow(FlowControl):
    """Flow control that does not read on while received bytes wait, whoever else wants to."""

    has_rest = False

    def resume_reading(self) -> None:
        """Read on, unless received bytes wait."""
        if not self.has_rest:
            super().resume_reading()


class SequentialProtocol(Protocol, ABC):
    """A connection whose requests are parsed and answered one after the other."""

    flow: Flow

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._phase = _IDLE
        self._body = 0  # bytes of body received
        self._is_deaf = False  # nothing more is read: a request was refused, or is the last one
        self._rest, self._rest_from = b"", 0  # received and not parsed
        self._tail = b""  # the last bytes of unfinished header fields
        self._continuing: asyncio.Handle | None = None

    # --- for subclasses --------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        self._phase = phase

    def _parsed(self, size: int) -> None:
        """A part of this size was parsed."""

    def _received(self) -> None:
        """All that can be parsed now of the received bytes was parsed."""

    @abstractmethod
    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Respond to a request that is not read to its end, and close."""

    # --- the transport ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Prepare to read."""
        super().connection_made(transport)
        self.flow = Flow(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what was not parsed."""
        self._is_deaf = True
        self._drop_rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse up to the end of the request, if none is being answered."""
        if self._is_deaf or self.transport.is_closing():
            return
        if self.flow.has_rest:
            self._rest, self._rest_from = self._rest[self._rest_from :] + data, 0
        else:
            self._feed(data, 0)
        self._received()

    def resume_writing(self) -> None:
        """Continue: the caller has read."""
        super().resume_writing()
        self._continue_later()

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if not self.flow.write_paused:
            self.flow.resume_reading()
        if self._phase is _RESPONSE:
            self._enter(_IDLE)
            self._continue_later()

    # --- parsing ---------------------------------------------------------------------------------

    def _feed(self, data: bytes, start: int) -> None:
        """Parse data from a position to the end of a request."""
        size = len(data)
        while start < size:
            if self._phase is _RESPONSE or self.flow.write_paused:
                self._keep_rest(data, start)
                return
            end = self._end_of_part(data, start)
            try:
                self.parser.feed_data(data if end - start == size else memoryview(data)[start:end])
            except httptools.HttpParserUpgrade:
                self._end_after_response()  # upgrades are ignored; the parser cannot continue
            except httptools.HttpParserError as error:
                if not self._is_deaf:
                    self._refuse(HTTPStatus.BAD_REQUEST, f"not HTTP: {error}")
            if self._is_deaf or self.transport.is_closing():
                return
            self._parsed(end - start)
            if self._is_deaf:
                return
            start = end
            if self._phase is _IDLE and start < size:
                self._keep_rest(data, start)  # others first
                self._continue_later()
                return

    def _end_of_part(self, data: bytes, start: int) -> int:
        """Return the end of what may be parsed at once: at most the rest of the current request."""
        size = len(data)
        if self._phase is _BODY:
            if self._body_length is None:
                return min(size, start + _CHUNKED_PART)
            return min(size, start + max(1, self._body_length - self._body))
        if self._tail:  # the end of the header fields may have arrived in pieces
            joined = self._tail + data[start : start + 3]
            found = joined.find(_END_OF_HEAD)
            if found >= 0:
                end = start + found + 4 - len(self._tail)
                self._tail = b""
                return end
        found = data.find(_END_OF_HEAD, start, start + _HEAD_PART)
        if found >= 0:
            self._tail = b""
            return found + 4
        end = min(size, start + _HEAD_PART)
        self._tail = (self._tail + data[max(start, end - 3) : end])[-3:]
        return end

    def _keep_rest(self, data: bytes, start: int) -> None:
        self._rest, self._rest_from = data, start
        self.flow.has_rest = True
        self.flow.pause_reading()

    def _drop_rest(self) -> None:
        self._rest, self._rest_from = b"", 0
        self.flow.has_rest = False

    def _continue_later(self) -> None:
        if self.flow.has_rest and self._continuing is None:
            self._continuing = self.loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._continuing = None
        if self._is_deaf or self.transport.is_closing() or not self.flow.has_rest:
            return
        if self._phase is not _RESPONSE and not self.flow.write_paused:
            data, start = self._rest, self._rest_from
            self._drop_rest()
            self._feed(data, start)
            if not (self.flow.has_rest or self.flow.write_paused):
                self.flow.resume_reading()
        self._received()

    def _end_after_response(self) -> None:
        """Read no further request; close after the current one's response."""
        self._is_deaf = True
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.close()
        else:
            cycle.keep_alive = False

    # --- the parser ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request.

        One that shares a part of a chunked body with an unanswered request is dropped: the connection ends
        with the response, and the caller repeats the request on another one.
        """
        if self._is_deaf:
            return
        if self._phase is _RESPONSE:
            self._end_after_response()
            return
        super().on_message_begin()
        self._enter(_HEAD)

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        if not self._is_deaf:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header field; trailers are dropped."""
        if self._phase is _HEAD and not self._is_deaf:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        if self._is_deaf:
            return
        self._body = 0
        self._enter(_BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        if self._is_deaf:
            return
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Respond: from now on the caller waits."""
        if self._is_deaf:
            return
        self._enter(_RESPONSE)
        super().on_message_complete()
        if self._phase is _RESPONSE and self.cycle.response_complete:  # it was answered before its end
            self._enter(_IDLE)
