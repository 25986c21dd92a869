"""How commands ask a running `koordpy serve`: its debug door, by plain HTTP."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from .options import Failure

DEBUG_URL: Final = "http://127.0.0.1:10251"

server_option = click.option(
    "--debug-server", default=DEBUG_URL, show_default=True, help="Debug address of a running koordpy serve."
)

_SILENCE: Final = 45.0
"""Seconds after which a stream that says nothing, not even that it lives, is given up."""


def ask(server: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
    """Return what a path answers. Raises Failure."""
    return _request("GET", server, path, query, None, 10.0)


def post(server: str, path: str, document: Any, query: Mapping[str, Any] | None = None) -> Any:
    """Return what a path answers to a document. Raises Failure."""
    return _request("POST", server, path, query, document, 60.0)


def follow(server: str, path: str, query: Sequence[tuple[str, str]]) -> Iterator[Any]:
    """Yield the lines of a stream until the server ends it. Raises Failure."""
    import httpx

    timeout = httpx.Timeout(10.0, read=_SILENCE)
    try:
        found = httpx.QueryParams(tuple(query))
        with httpx.stream("GET", f"{server}{path}", params=found, timeout=timeout) as answer:
            if answer.status_code != 200:
                answer.read()
                raise Failure(_problem(answer, path))
            for line in answer.iter_lines():
                if line:
                    yield json.loads(line)
    except httpx.HTTPError as error:
        raise _unreachable(server, error) from None


def _request(
    method: str, server: str, path: str, query: Mapping[str, Any] | None, document: Any, timeout: float
) -> Any:
    import httpx

    try:
        answer = httpx.request(method, f"{server}{path}", params=query, json=document, timeout=timeout)
    except httpx.HTTPError as error:
        raise _unreachable(server, error) from None
    if answer.status_code != 200:
        raise Failure(_problem(answer, path))
    return answer.json()


def _unreachable(server: str, error: Exception) -> Failure:
    return Failure(f"{server}: {error}; is koordpy serve running with the debug door open?")


def _problem(answer: Any, path: str) -> str:
    """Return what is wrong, in the server's words where it has any."""
    try:
        told = answer.json()
        message = told.get("message") or "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in told["detail"]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        message = ""
    return str(message or f"{path} answered {answer.status_code}")
