"""The commands' client of a running koordpy's debug API, over plain HTTP."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from .options import Failure

DEBUG_URL: Final = "http://127.0.0.1:10251"

server_option = click.option(
    "--debug-server",
    default=DEBUG_URL,
    show_default=True,
    help="Debug address of a running koordpy.",
)

_SILENCE: Final = 45.0
"""Seconds without data, heartbeats included, after which a stream is given up."""


class NotFound(Failure):
    """The requested object does not exist."""


def address(server: str) -> str:
    """Return the URL of a debug API, given a URL or HOST:PORT."""
    return (server if "://" in server else f"http://{server}").rstrip("/")


def get(server: str, path: str, query: Mapping[str, Any] | None = None) -> Any:
    """Return the response to a GET. Raises Failure."""
    return _request("GET", server, path, query, None, 10.0)


def post(server: str, path: str, document: Any, query: Mapping[str, Any] | None = None) -> Any:
    """Return the response to a POST of a document. Raises Failure."""
    return _request("POST", server, path, query, document, 60.0)


def follow(server: str, path: str, query: Sequence[tuple[str, str]]) -> Iterator[Any]:
    """Yield the lines of a stream until the server ends it. Raises Failure."""
    import httpx

    timeout = httpx.Timeout(10.0, read=_SILENCE)
    url = f"{address(server)}{path}"
    try:
        found = httpx.QueryParams(tuple(query))
        with httpx.stream("GET", url, params=found, timeout=timeout) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refused(answer, url)
            for line in answer.iter_lines():
                if line:
                    yield json.loads(line)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(server, error) from None


def _request(
    method: str, server: str, path: str, query: Mapping[str, Any] | None, document: Any, timeout: float
) -> Any:
    import httpx

    url = f"{address(server)}{path}"
    try:
        answer = httpx.request(method, url, params=query, json=document, timeout=timeout)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(server, error) from None
    if answer.status_code != 200:
        raise _refused(answer, url)
    try:
        return answer.json()
    except ValueError:
        raise _stranger(url, "something that is not JSON") from None


def _unreachable(server: str, error: Exception) -> Failure:
    return Failure(
        f"{address(server)}: {str(error) or type(error).__name__}; is koordpy running there, with the part "
        "debug? Set its address with --debug-server; for one in a pod use kubectl port-forward"
    )


def _refused(answer: Any, url: str) -> Failure:
    """Return what is wrong, with the server's message where the server is koordpy."""
    try:
        told = answer.json()
        message = told["message"] if "kind" not in told else ""
    except (ValueError, KeyError, TypeError):
        message = ""
    if not message:
        return _stranger(url, str(answer.status_code))
    return NotFound(message) if answer.status_code == 404 else Failure(str(message))


def _stranger(url: str, answered: str) -> Failure:
    return Failure(f"{url} answered {answered}: is that koordpy's debug API?")
