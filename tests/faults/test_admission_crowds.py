"""Many callers at once, callers that never read, and very large pods."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.scheme import decode
from koordpy.main import allow_many_connections
from tests.eventually import PATIENCE
from tests.integration.service.stage import Stage, pod_document, review_of, serving, until
from tests.servers.caller import Caller, head

JSON = "content-type: application/json\r\n"
PATH = "/mutate-pod?timeout=30s"
"""With the longest time that kube-apiserver can be told to wait."""
PROFILE = {"metadata": {"name": "all"}, "spec": {"selector": {}, "labels": {"by": "us"}, "qosClass": "BE"}}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, parts=["admission"]) as made:
        store = made.process.cluster.store(ClusterColocationProfile)
        store.apply(decode(ClusterColocationProfile, json.dumps(PROFILE).encode()))
        yield made


def body_of(pod: dict[str, Any]) -> bytes:
    return json.dumps(review_of(pod)).encode()


def connections(stage: Stage) -> list[Any]:
    return list(stage.process.listeners["admission"]._server.server_state.connections)


async def is_allowed(caller: Caller, body: bytes) -> bool:
    response = json.loads((await caller.post(PATH, body, JSON)).body)["response"]
    return bool(response["allowed"] and response["patch"])


async def test_a_thousand_connections_are_all_answered(stage: Stage) -> None:
    allow_many_connections()
    tls, url, body = stage.trust(), stage.url("admission"), body_of(pod_document("p"))
    callers = [Caller(url, tls) for _ in range(1000)]

    async def connect(some: list[Caller]) -> None:
        for caller in some:
            await caller.__aenter__()

    await asyncio.gather(*(connect(callers[start::20]) for start in range(20)))
    await until(lambda: len(connections(stage)) == 1000)  # a caller is done with the handshake first
    for _ in range(2):
        assert all(await asyncio.gather(*(is_allowed(caller, body) for caller in callers)))
    for caller in callers:
        caller.hang_up()
    await until(lambda: connections(stage) == [])


async def test_a_caller_that_never_reads_is_no_longer_read_from(stage: Stage) -> None:
    body = body_of(pod_document("p"))
    request = head(PATH, len(body), JSON) + body
    tls, url = stage.trust(), stage.url("admission")
    async with Caller(url, tls) as silent, Caller(url, tls) as other:
        silent._reader._transport.pause_reading()  # type: ignore[attr-defined]

        async def send_for_ever() -> None:
            while True:
                await silent.send(request * 100)

        sending = asyncio.create_task(send_for_ever())
        assert await is_allowed(other, body)
        await until(lambda: any(c.flow.write_paused for c in connections(stage)))
        [held] = [c for c in connections(stage) if c.flow.write_paused]
        waiting = held.transport.get_write_buffer_size

        async def is_at_rest() -> bool:
            before = waiting()
            for _ in range(20):
                assert await is_allowed(other, body)
            return bool(held.flow.read_paused and before == waiting())

        # The kernel may take some more of the answers before its own buffers are full.
        async with asyncio.timeout(PATIENCE):
            while not await is_at_rest():
                assert waiting() < 1 << 20
        assert 0 < waiting() < 1 << 20
        sending.cancel()


async def test_connections_cut_at_every_point_leave_nothing(stage: Stage) -> None:
    body = body_of(pod_document("p"))
    request = head(PATH, len(body), JSON) + body
    tls, url = stage.trust(), stage.url("admission")
    for at in range(0, len(request), len(request) // 60):
        async with Caller(url, tls) as caller:
            await caller.send(request[:at])
    await until(lambda: connections(stage) == [])
    assert stage.process.listeners["admission"]._server._memory.held == 0
    async with Caller(url, tls) as caller:
        assert await is_allowed(caller, body)


@pytest.mark.parametrize(
    "grown",
    [
        lambda pod: pod["spec"].update(containers=pod["spec"]["containers"] * 12_000),
        lambda pod: pod["metadata"].update(labels={f"l{i}": "v" for i in range(100_000)}),
        lambda pod: pod["metadata"].update(annotations={"a": "x" * 3_000_000}),
        lambda pod: pod["spec"].update(tolerations=[{"key": f"k{i}"} for i in range(50_000)]),
        lambda pod: pod["spec"]["containers"][0]["resources"].update(
            limits={f"r{i}": "9" * 3900 for i in range(700)}
        ),
    ],
    ids=["containers", "labels", "annotation", "tolerations", "quantities"],
)
async def test_a_pod_of_megabytes_is_answered_in_the_time_of_a_call(stage: Stage, grown: Any) -> None:
    """kube-apiserver waits half a minute at most; what grows with the square of the size takes minutes."""
    pod = copy.deepcopy(pod_document("p", labels={"koordinator.sh/priority-class": "koord-batch"}))
    grown(pod)
    async with Caller(stage.url("admission"), stage.trust()) as caller:
        assert await is_allowed(caller, body_of(pod))
