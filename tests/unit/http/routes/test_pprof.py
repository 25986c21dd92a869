"""Profiles that `go tool pprof` reads."""

import asyncio
import threading

import httpx
import pytest
from fastapi import FastAPI

from koordpy.http.routes import pprof
from tests.pprof import decode


def client() -> httpx.AsyncClient:
    application = FastAPI()
    application.include_router(pprof.router())
    transport = httpx.ASGITransport(app=application)
    return httpx.AsyncClient(transport=transport, base_url="http://debug")


async def test_a_profile_shows_what_threads_do() -> None:
    begun, stop = threading.Event(), threading.Event()

    def wait_for_the_end() -> None:
        begun.set()
        stop.wait()

    thread = threading.Thread(target=wait_for_the_end)
    thread.start()
    begun.wait()
    try:
        async with client() as caller:
            answer = await caller.get("/debug/pprof/profile", params={"seconds": 0.05})
    finally:
        stop.set()
        thread.join()
    samples, _ = decode(answer.content)
    assert any(name.endswith("wait_for_the_end") for stack in samples for name, _ in stack)


async def test_only_one_profile_is_taken_at_a_time() -> None:
    async with client() as caller:
        both = (caller.get("/debug/pprof/profile", params={"seconds": 0.1}) for _ in range(2))
        answers = await asyncio.gather(*both)
    assert sorted(answer.status_code for answer in answers) == [200, 409]


@pytest.mark.parametrize("seconds", ["0", "-1", "121", "soon", "nan"])
async def test_times_have_bounds(seconds: str) -> None:
    async with client() as caller:
        assert (await caller.get("/debug/pprof/profile", params={"seconds": seconds})).status_code == 422


async def test_stacks_name_threads_and_tasks() -> None:
    async def wait_a_little() -> None:
        await asyncio.sleep(30)

    task = asyncio.create_task(wait_a_little(), name="a task of ours")
    await asyncio.sleep(0)
    async with client() as caller:
        text = (await caller.get("/debug/pprof/stacks")).text
    task.cancel()
    assert "thread MainThread" in text
    assert "task a task of ours" in text
    assert "wait_a_little" in text
