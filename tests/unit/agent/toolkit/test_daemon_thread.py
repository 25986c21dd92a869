"""Calls in a thread of their own."""

import asyncio
import threading

import pytest

from koordpy.agent.toolkit.daemon_thread import DaemonThread
from tests.eventually import eventually


async def test_calls_run_one_after_the_other_in_one_thread_that_does_not_keep_the_process():
    thread = DaemonThread("some-driver")
    first, second = await asyncio.gather(
        thread.call(threading.current_thread), thread.call(threading.current_thread)
    )
    assert first is second
    assert (first.name, first.daemon) == ("some-driver", True)
    assert first is not threading.current_thread()
    thread.close()
    first.join()


async def test_what_a_call_raises_is_raised():
    thread = DaemonThread("some-driver")
    with pytest.raises(ZeroDivisionError):
        await thread.call(lambda: 1 // 0)
    assert await thread.call(lambda: 1) == 1
    thread.close()


async def test_a_call_that_hangs_can_be_given_up_and_is_known_to_hang():
    thread = DaemonThread("some-driver")
    answered = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await thread.call(answered.wait)
    assert thread.busy
    answered.set()
    assert eventually(lambda: not thread.busy)
    thread.close()


async def test_a_last_call_runs_before_the_thread_ends():
    thread, done = DaemonThread("some-driver"), threading.Event()
    thread.close(done.set)  # nothing was started, so nothing has to be given up
    assert not done.is_set()
    worker = await thread.call(threading.current_thread)
    thread.close(done.set)
    worker.join()
    assert done.is_set()
