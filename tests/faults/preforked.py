"""A program in several processes, to test `koordpy.lib.prefork`: `-m tests.faults.preforked COUNT HOW`.

Each worker prints `INDEX PID WHAT` when it starts, is ready, hears that all are, and ends.
"""

import asyncio
import os
import signal
import sys

from koordpy.lib.prefork import Prefork, Seat


def work(seat: Seat) -> None:
    asyncio.run(_work(seat, sys.argv[2]))


async def _work(seat: Seat, how: str) -> None:
    def say(what: str) -> None:
        os.write(1, f"{seat.index} {os.getpid()} {what}\n".encode())

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, (lambda: None) if how == "stubborn" else stopping.set)
    seat.watch(stopping.set)
    say("replaces" if seat.is_replacement else "starts")
    if how == "fails" and seat.index == 1:
        raise SystemExit(3)
    seat.ready()
    while not seat.all_ready and not stopping.is_set():
        await asyncio.sleep(0.005)
    say("all")
    await stopping.wait()
    say("ends")
    if how == "bad-end" and seat.index == 1:
        raise SystemExit(7)


if __name__ == "__main__":
    grace = 0.5 if sys.argv[2] == "stubborn" else 30.0
    sys.exit(Prefork(int(sys.argv[1]), work, grace_seconds=grace).run())
