"""The machine that a figure belongs to, and which of its cores does what.

Client and server each have a core of their own where a benchmark says so; otherwise a figure would tell how
the kernel divides one core between two processes.
"""

import os
import platform
from pathlib import Path

import msgspec

SERVER_CORE, CLIENT_CORE = 0, 1

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Machine(msgspec.Struct, frozen=True):
    """What a reader must know to compare."""

    cpu: str
    cores: int
    memory_gib: int
    kernel: str
    python: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB, Linux {self.kernel}, "
            f"Python {self.python}"
        )


def this() -> Machine:
    """Return the machine this runs on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PHYS_PAGES") * _PAGE
    return Machine(
        cpu, os.cpu_count() or 1, round(memory / (1 << 30)), platform.release(), platform.python_version()
    )


def pin(pid: int, core: int) -> None:
    """Keep a process (0: this one) on one core; on a machine with a single core nothing is done."""
    if core in os.sched_getaffinity(0) or (os.cpu_count() or 1) > core:
        os.sched_setaffinity(pid, {core})


def unpin() -> None:
    """Let this process use every core again."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def load_average() -> float:
    """Return how many processes wanted a core during the last minute; a quiet machine has about 0."""
    return round(os.getloadavg()[0], 2)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that the threads of a process have used, to the nanosecond.

    On a machine that is shared this says more than the clock: it does not count the time in which others ran.
    """
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def busy_seconds() -> float:
    """Return the processor time that all processes of the machine have used since it started."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq) / _TICKS
