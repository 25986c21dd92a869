"""One debug door for several workers: what is asked of one is asked of all.

Workers share ports, so whoever asks for `/metrics` reaches one of them by chance. That worker asks all of
them, itself included, on the socket that each has for this purpose alone, and answers for all: metrics carry
the worker they come from as a label (so nothing is added up that must not be, and a counter that starts again
with its process does so visibly), and admissions are in one list. What is the same everywhere is not asked.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import httpx
from prometheus_client import CONTENT_TYPE_LATEST

from .routes import metrics
from .server.asgi import JSON, ASGIApp, Receive, Scope, Send, send_answer

log = logging.getLogger(__name__)

ADMISSIONS: Final = "/apis/v1/admissions"

_PATIENCE: Final = 2.0
"""Seconds that a worker may take to answer another one."""

_UP: Final = "koordpy_worker_up"


@dataclass(frozen=True)
class Desk:
    """What a worker has besides what every process has; nothing where there are no siblings.

    `shared` are the sockets of listeners that all workers serve, by name, and `own` is the listening socket
    on which this one is asked; `paths` says where all of them are asked, by index.
    """

    shared: Mapping[str, socket.socket] = field(default_factory=dict)
    own: socket.socket | None = None
    paths: Sequence[Path] = ()
    is_replacement: bool = False


class Collective:
    """A debug application that answers for all workers. `paths` are those of their sockets."""

    def __init__(self, app: ASGIApp, paths: Sequence[Path]) -> None:
        self._app, self._paths = app, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"] if scope["type"] == "http" and scope["method"] == "GET" else ""
        if path not in metrics.PATHS and path != ADMISSIONS:
            await self._app(scope, receive, send)
            return
        query = str(scope["query_string"], "latin-1")
        asking = (self._ask(where, path, query) for where in self._paths)
        answers = dict(enumerate(await asyncio.gather(*asking)))
        heard = {index: answer for index, answer in answers.items() if answer is not None}
        refused = next((answer for answer in heard.values() if answer.status_code != 200), None)
        if refused is not None:
            await send_answer(send, refused.status_code, refused.content, JSON)
        elif path in metrics.PATHS:
            text = join_metrics({index: None if a is None else a.text for index, a in answers.items()})
            await send_answer(send, 200, text.encode(), (b"content-type", CONTENT_TYPE_LATEST.encode()))
        else:
            limit = int(parse_qs(query).get("limit", ["50"])[-1])  # it was found valid by a worker
            joined = join_admissions({index: a.json() for index, a in heard.items()})[:limit]
            await send_answer(send, 200, json.dumps(joined).encode(), JSON)

    async def _ask(self, where: Path, path: str, query: str) -> httpx.Response | None:
        """Ask one worker; None if it does not answer."""
        transport = httpx.AsyncHTTPTransport(uds=str(where))
        try:
            async with httpx.AsyncClient(transport=transport, timeout=_PATIENCE) as client:
                return await client.get(f"http://worker{path}?{query}")
        except httpx.HTTPError as error:
            log.warning("a worker did not answer on %s: %r", where.name, error)
            return None


def join_metrics(texts: Mapping[int, str | None]) -> str:
    """Join expositions in the text format; every sample gets a label `worker`.

    Workers without an exposition (None) are only named in `koordpy_worker_up`.
    """
    comments: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for worker, text in texts.items():
        name = ""
        for line in (text or "").splitlines():
            if line.startswith("#"):
                if line.startswith("# HELP "):
                    name = line.split(" ", 3)[2]
                known = comments.setdefault(name, [])
                if line not in known:
                    known.append(line)
            elif line:
                samples.setdefault(name, []).append(_labelled(line, worker))
    comments[_UP] = [f"# HELP {_UP} Whether a worker answers.", f"# TYPE {_UP} gauge"]
    samples[_UP] = [_labelled(f"{_UP} {float(text is not None)}", worker) for worker, text in texts.items()]
    lines = [line for name in comments for line in (*comments[name], *samples.get(name, ()))]
    return "\n".join(lines) + "\n"


def _labelled(sample: str, worker: int) -> str:
    name, space, value = sample.partition(" ")
    plain, brace, _ = name.partition("{")
    if not brace:
        return f'{name}{{worker="{worker}"}}{space}{value}'
    return f'{plain}{{worker="{worker}",{sample[len(plain) + 1 :]}'


def join_admissions(lists: Mapping[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Join the admissions of workers, the newest first, each with its worker."""
    joined = [{**admission, "worker": worker} for worker, found in lists.items() for admission in found]
    return sorted(joined, key=lambda admission: str(admission["time"]), reverse=True)
