"""HTTP endpoints as functions from a request to an answer, for processes without a web framework."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True)
class Request:
    """A request with its whole body. `rest` is what the path has beyond the endpoint's own path."""

    method: str = "GET"
    path: str = "/"
    query: Mapping[str, list[str]] = field(default_factory=dict)
    body: bytes = b""
    rest: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The last value of each header, by lower-case name."""

    def value(self, name: str, default: str = "") -> str:
        """Return the last value of a query parameter."""
        return self.query[name][-1] if self.query.get(name) else default


@dataclass(frozen=True)
class Answer:
    """An answer."""

    body: bytes
    status: int = 200
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers."""

    @classmethod
    def text(cls, text: str, status: int = 200) -> "Answer":
        """Return plain text."""
        return cls(text.encode(), status)

    @classmethod
    def json(cls, document: object, status: int = 200) -> "Answer":
        """Return a document of JSON types. Raises TypeError for any other."""
        return cls(json.dumps(document).encode(), status, JSON)

    @classmethod
    def problem(cls, message: str, status: int) -> "Answer":
        """Return why a request failed, in the format of the debug API."""
        return cls.json({"message": message}, status)


@dataclass(frozen=True)
class Endpoint:
    """A function that answers on the event loop, and the methods that it is called for (GET includes HEAD).

    Where its path ends with a slash, it also answers for everything below. A ValueError that it raises is
    answered with 400, a LookupError with 404.
    """

    respond: Callable[[Request], Answer | Awaitable[Answer]]
    methods: tuple[str, ...] = ("GET",)
