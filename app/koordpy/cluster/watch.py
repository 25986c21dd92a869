"""An open watch, read in batches of events."""

from typing import Any

from koordpy.lib.http1 import StreamingResponse

from .wire import LineBuffer, Malformed, WatchEvent, decode_events


class Watch:
    """An open watch; `read` until it returns an empty list."""

    def __init__(self, type_: type[Any], stream: StreamingResponse) -> None:
        self._type, self._stream, self._lines = type_, stream, LineBuffer()
        self.malformed: list[Malformed] = []
        """Objects that were skipped, for the reader to report and clear."""

    async def read(self, timeout: float | None = None) -> list[WatchEvent[Any]]:
        """Return the available events, waiting for the first; [] once the server closed the watch.

        Raises WatchError (the server ended it), RequestTimeout (silence), ConnectionLost, DecodeError.
        """
        while data := await self._stream.read(timeout):
            lines = self._lines.feed(data)
            if lines:
                events, malformed = decode_events(self._type, lines)
                self.malformed.extend(malformed)
                if events or malformed:
                    return events
        return []
