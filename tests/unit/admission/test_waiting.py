"""Chains with handlers that wait."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest
from prometheus_client import REGISTRY

from koordpy.admission.chain import Chain
from koordpy.admission.explain import explain
from koordpy.admission.handler import (
    AsyncMutatingHandler,
    AsyncValidatingHandler,
    Denied,
    Errored,
    Request,
)
from koordpy.admission.review import review_waiting
from koordpy.api.core import Pod
from koordpy.api.document import Document
from koordpy.api.plugin import NoArgs

from .reviews import POD, ask, body, handle, mutating, validating

Validate = Callable[[Request], Awaitable[None]]


def waiting(validate: Validate, path: str = "/check", name: str = "Waits") -> AsyncValidatingHandler:
    call = validate
    at, named = path, name

    class Waiting(AsyncValidatingHandler):
        name: ClassVar[str] = named
        path: ClassVar[str] = at

        async def validate(self, request: Request) -> None:
            await call(request)

    return Waiting(NoArgs(), handle())


async def turn(_: Request) -> None:
    """Wait for one turn of the event loop."""
    await asyncio.sleep(0)


async def ask_waiting(chain: Chain, sent: bytes) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(await review_waiting(chain, sent))["response"]
    return response


async def test_handlers_run_in_their_order_around_one_that_waits() -> None:
    ran: list[str] = []

    async def wait(request: Request) -> None:
        ran.append("begin")
        await turn(request)
        ran.append("end")

    chain = Chain(
        "/check",
        [
            validating(lambda _: ran.append("before")),
            waiting(wait),
            validating(lambda _: ran.append("between")),
            waiting(wait),
            validating(lambda _: ran.append("after")),
        ],
    )
    assert chain.waits
    assert (await ask_waiting(chain, body()))["allowed"]
    assert ran == ["before", "begin", "end", "between", "begin", "end", "after"]


async def test_requests_are_decided_while_others_wait() -> None:
    gate = asyncio.Event()

    async def wait(request: Request) -> None:
        if request.name == "slow":
            await gate.wait()

    chain = Chain("/check", [waiting(wait)])
    slow = asyncio.create_task(ask_waiting(chain, body(name="slow")))
    assert (await ask_waiting(chain, body(name="fast")))["allowed"]
    assert not slow.done()
    gate.set()
    assert (await slow)["allowed"]


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (Denied("no"), 403, "no"),
        (Errored(400, "full"), 400, "full"),
        (ValueError("bug"), 500, "panic: bug [recovered]"),
    ],
)
async def test_what_a_waiting_handler_raises_is_the_answer(
    raised: Exception, code: int, message: str
) -> None:
    ran: list[str] = []

    async def refuse(request: Request) -> None:
        await turn(request)
        raise raised

    chain = Chain("/check", [waiting(refuse), validating(lambda _: ran.append("after"))])
    status = (await ask_waiting(chain, body()))["status"]
    assert (status["code"], status["message"]) == (code, message)
    assert ran == []


async def test_a_handler_may_wait_before_it_edits() -> None:
    class Labels(AsyncMutatingHandler):
        name: ClassVar[str] = "Labels"
        path: ClassVar[str] = "/mutate-pod"

        async def mutate(self, request: Request, document: Document) -> None:
            await turn(request)
            document.set(("metadata", "labels", "seen"), "yes")

    seen: list[object] = []
    later = mutating(lambda request, pod: seen.append(pod.get(("metadata", "labels", "seen"))))
    response = await ask_waiting(Chain("/mutate-pod", [Labels(NoArgs(), handle()), later]), body())
    assert seen == ["yes"]
    assert response["patchType"] == "JSONPatch"


async def test_without_object_a_mutating_handler_is_not_called() -> None:
    class Fails(AsyncMutatingHandler):
        name: ClassVar[str] = "Fails"
        path: ClassVar[str] = "/check"

        async def mutate(self, request: Request, document: Document) -> None:
            raise Denied("asked")

    chain = Chain("/check", [Fails(NoArgs(), handle())])
    assert (await ask_waiting(chain, body(None, operation="DELETE")))["allowed"]


async def test_malformed_reviews_are_answered_too() -> None:
    chain = Chain("/check", [waiting(turn)])
    assert (await ask_waiting(chain, b""))["status"]["message"] == "request body is empty"


async def test_who_gives_up_cancels_the_handler_and_leaves_no_answer() -> None:
    cancelled: list[bool] = []

    async def wait(_: Request) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    chain = Chain("/check", [waiting(wait)])
    asking = asyncio.create_task(ask_waiting(chain, body()))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert cancelled == [True]
    assert len(chain.history) == 0


def test_without_waiting_only_dry_runs_get_through() -> None:
    async def wait_unless_dry(request: Request) -> None:
        if not request.dry_run:
            await turn(request)

    chain = Chain("/check", [waiting(wait_unless_dry)])
    assert ask(chain, body(dryRun=True))["allowed"]
    status = ask(chain, body())["status"]
    assert status["code"] == 500
    assert status["message"] == "handler check.Waits has to wait, which this chain does not allow"


def test_explanations_ask_for_dry_runs() -> None:
    dry: list[bool] = []

    async def look(request: Request) -> None:
        dry.append(request.dry_run)
        raise Denied("no room")

    told = explain(Chain("/check", [waiting(look)]), POD)
    assert (told.allowed, told.message, dry) == (False, "no room", [True])


async def test_later_handlers_see_the_object_that_is_shown() -> None:
    seen: list[str] = []

    async def show(request: Request) -> None:
        request.show(Pod(metadata=request.object(Pod).metadata))

    chain = Chain(
        "/check",
        [
            waiting(show),
            validating(lambda request: seen.append(request.object(Pod).metadata.name)),
            validating(lambda request: seen.append(str(request.object(Pod).spec.containers))),
        ],
    )
    response = await ask_waiting(chain, body())
    assert seen == ["p1", "[]"]
    assert "patch" not in response


async def test_the_wait_is_part_of_the_handlers_time() -> None:
    labels = {
        "webhook_type": "other",
        "object_type": "other",
        "operation": "CREATE",
        "plugin_name": "Timed",
        "status": "allowed",
    }
    await ask_waiting(Chain("/check", [waiting(turn, name="Timed")]), body())
    name = "koord_manager_webhook_webhook_duration_milliseconds_count"
    assert REGISTRY.get_sample_value(name, labels) == 1
