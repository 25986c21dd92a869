"""A scheduler extender on a real socket, which answers as a test tells it and remembers what it was asked."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from tests.servers.raw import Exchange, RawServer

Answer = Callable[[dict[str, Any]], Any]
"""From the call's arguments to the answer, or to an awaitable of it; an int is a status without a body."""


class Extender:
    """`async with Extender(filter=..., prioritize=...) as extender:`; the arguments are verbs."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.server = RawServer(self._handle)

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.__aexit__()

    def entry(self, *verbs: str, prefix: str = "/extender", **fields: Any) -> dict[str, Any]:
        """An entry of `extenders` in a KubeSchedulerConfiguration that calls this server."""
        weight = {"weight": 1} if "prioritize" in verbs else {}
        return {
            "urlPrefix": self.server.url + prefix,
            "nodeCacheCapable": True,
            "httpTimeout": "120s",
            **{f"{verb}Verb": verb for verb in verbs},
            **weight,
            **fields,
        }

    def asked(self, verb: str) -> list[dict[str, Any]]:
        """The arguments of all calls of a verb."""
        return [args for name, args in self.calls if name == verb]

    async def _handle(self, exchange: Exchange) -> None:
        verb = exchange.request.target.rpartition("/")[2]
        args = json.loads(exchange.request.body)
        self.calls.append((verb, args))
        answer = self.answers[verb](args)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, int):
            await exchange.reply(answer)
        else:
            await exchange.reply(200, json.dumps(answer).encode(), "content-type: application/json\r\n")


def keep_all(args: dict[str, Any]) -> dict[str, Any]:
    """A filter that refuses nothing."""
    return keep(*args["NodeNames"])(args)


def keep(*names: str) -> Answer:
    """A filter that keeps some nodes and gives no reason about the others."""
    return lambda _: {"Nodes": None, "NodeNames": list(names), "FailedNodes": {}, "Error": ""}


def refuse(reason: str, *names: str) -> Answer:
    """A filter that refuses some nodes (none named: all) for a reason."""

    def answer(args: dict[str, Any]) -> dict[str, Any]:
        refused = [name for name in args["NodeNames"] if not names or name in names]
        left = [name for name in args["NodeNames"] if name not in refused]
        return {"NodeNames": left, "FailedNodes": dict.fromkeys(refused, reason), "Error": ""}

    return answer


def scores(**by_name: int) -> Answer:
    """A prioritize answer; node names are given with `_` for `-`, the others get 0."""
    known = {name.replace("_", "-"): score for name, score in by_name.items()}
    return lambda args: [{"Host": name, "Score": known.get(name, 0)} for name in args["NodeNames"]]


async def forever(_: dict[str, Any]) -> dict[str, Any]:
    """An answer that never comes."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
