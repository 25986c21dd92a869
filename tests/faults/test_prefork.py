"""Workers and their parent: starts, ends of all kinds, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from koordpy.lib.supervise import Backoff
from tests.eventually import PATIENCE, eventually

ROOT = Path(__file__).parents[2]


class Crew:
    def __init__(self, process: "subprocess.Popen[str]", said: Path) -> None:
        self.process, self._said = process, said

    def said(self, what: str) -> dict[int, int]:
        """Return who said something last: process by index."""
        lines = [line.split() for line in self._said.read_text().splitlines()]
        return {int(index): int(pid) for index, pid, word in lines if word == what}

    def order(self) -> list[tuple[int, str]]:
        lines = [line.split() for line in self._said.read_text().splitlines()]
        return [(int(index), word) for index, _, word in lines]

    def wait_all(self, count: int) -> dict[int, int]:
        assert eventually(lambda: len(self.said("all")) == count)
        return self.said("all")

    def ends(self) -> int:
        return self.process.wait(PATIENCE)


@contextmanager
def crew(folder: Path, count: int, how: str = "well") -> Iterator[Crew]:
    said = folder / "said"
    command = [sys.executable, "-m", "tests.faults.preforked", str(count), how]
    with said.open("w") as out:
        process = subprocess.Popen(command, stdout=out, cwd=ROOT, text=True, start_new_session=True)
    try:
        yield Crew(process, said)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked for by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_first_worker_starts_alone_and_all_hear_when_all_are_ready(tmp_path: Path) -> None:
    with crew(tmp_path, 3) as started:
        started.wait_all(3)
        order = started.order()
        assert order[0] == (0, "starts")
        assert sorted(order[:3]) == [(0, "starts"), (1, "starts"), (2, "starts")]
        assert sorted(order[3:]) == [(0, "all"), (1, "all"), (2, "all")]
        started.process.terminate()
        assert started.ends() == 0
        assert len(started.said("ends")) == 3


def test_a_worker_that_is_killed_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    with crew(tmp_path, 2) as started:
        before = started.wait_all(2)
        os.kill(before[1], signal.SIGKILL)
        assert eventually(lambda: started.said("all")[1] != before[1])
        assert started.said("replaces").keys() == {1}
        assert started.said("all")[0] == before[0]
        assert lives(before[0])
        started.process.send_signal(signal.SIGINT)
        assert started.ends() == 0


def test_each_further_end_delays_the_next_start(tmp_path: Path) -> None:
    with crew(tmp_path, 2) as started:
        started.wait_all(2)
        first = Backoff()
        for end in range(3):
            killed, at = started.said("all")[1], time.monotonic()
            os.kill(killed, signal.SIGKILL)
            assert eventually(lambda killed=killed: started.said("all")[1] != killed)  # type: ignore[misc]
            # A busy machine makes it later, never earlier; half of a delay is left to chance.
            assert time.monotonic() - at >= first.initial * first.factor**end / 2


def test_no_worker_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with crew(tmp_path, 3) as started:
        workers = started.wait_all(3)
        started.process.kill()
        started.ends()
        assert eventually(lambda: not any(map(lives, workers.values())))
        assert len(started.said("ends")) == 3  # in good order


def test_a_worker_that_fails_at_the_start_ends_all_with_its_exit_code(tmp_path: Path) -> None:
    with crew(tmp_path, 3, "fails") as started:
        assert started.ends() == 3
        assert not any(map(lives, started.said("starts").values()))


def test_the_exit_code_tells_of_a_worker_that_did_not_end_well(tmp_path: Path) -> None:
    with crew(tmp_path, 2, "bad-end") as started:
        started.wait_all(2)
        started.process.terminate()
        assert started.ends() == 7


def test_workers_that_do_not_stop_are_killed_after_the_grace(tmp_path: Path) -> None:
    with crew(tmp_path, 2, "stubborn") as started:
        workers = started.wait_all(2)
        started.process.terminate()
        assert started.ends() == 128 + signal.SIGKILL
        assert not any(map(lives, workers.values()))
