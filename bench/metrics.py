"""The file in which the node agent's metrics survive a restart, beside SQLite and beside memory alone.

The points of a node, as the collectors write them, are stored for a stretch of simulated time by a process
of its own, which is then killed (SIGKILL): what a point costs in processor time, what the process grew by,
and how many of the last minute's points another process finds afterwards.
"""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from bench.report import Result
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.metrics.file import MetricFile
from koordpy.lib.clock import FakeClock

PODS, CONTAINERS = 100, 200
SECONDS: Final = 590
"""Simulated: nine whole minutes, and most of another one, which is not committed when a minute is."""
_STORES: Final = {
    "memory": "memory alone",
    "mapped": "memory-mapped rings",
    "minute": "SQLite, a transaction a minute",
    "second": "SQLite, a transaction a second",
}
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)

Name = tuple[str, str, str]
"""Kind, property and its value."""


class Store(Protocol):
    """Keeps points."""

    def writer(self, name: Name) -> Callable[[float, float], None]:
        """Return what adds a point of a series: its value, and its time in seconds after the epoch."""
        ...

    def end_second(self, second: int) -> None:
        """Do what is due after each second."""
        ...


class Rings:
    """The metric cache of the agent, with or without its file."""

    def __init__(self, folder: Path | None, second: int) -> None:
        self.clock = FakeClock(_BEGIN + timedelta(seconds=second))
        file = MetricFile(folder) if folder is not None else None
        self.cache = MetricCache(self.clock, file=file)

    def writer(self, name: Name) -> Callable[[float, float], None]:
        """Return the series' own method."""
        kind, key, value = name
        return self.cache.series(kind, {key: value}).add

    def end_second(self, second: int) -> None:
        """Remove what is old every five minutes, as the agent does."""
        self.clock.advance(1)
        if second % 300 == 0:
            self.cache.collect()

    def count_since(self, seconds: float) -> int:
        """Return the number of points from a time on."""
        window = int(seconds * 1000), int(self.clock.now().timestamp() * 1000)
        found = (self.cache.series(kind, {key: value}) for kind, key, value in _names())
        return sum(len(series.between(*window)[0]) for series in found)


class Sqlite:
    """A table of points in one database, with the settings that cost the least without losing it."""

    def __init__(self, folder: Path, commit_every: int) -> None:
        self._every = commit_every
        self._database = sqlite3.connect(folder / "points.db", isolation_level=None)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL"):
            self._database.execute(statement)
        self._database.execute("CREATE TABLE IF NOT EXISTS points (series INTEGER, at INTEGER, value REAL)")
        self._database.execute("CREATE INDEX IF NOT EXISTS of_series ON points (series, at)")
        self._ids: dict[Name, int] = {}
        self._pending: list[tuple[int, int, float]] = []

    def writer(self, name: Name) -> Callable[[float, float], None]:
        """Return a function that queues points for the next transaction."""
        number = self._ids.setdefault(name, len(self._ids))
        queue = self._pending.append
        return lambda value, at: queue((number, int(at * 1000), value))

    def end_second(self, second: int) -> None:
        """Write what is queued when it is time, and remove what is old every five minutes."""
        if second % self._every:
            return
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO points VALUES (?, ?, ?)", self._pending)
        if second % 300 == 0:
            oldest = (_BEGIN.timestamp() + second - 330) * 1000
            self._database.execute("DELETE FROM points WHERE at < ?", (oldest,))
        self._database.execute("COMMIT")
        self._pending.clear()

    def count_since(self, seconds: float) -> int:
        """Return the number of points from a time on."""
        [[count]] = self._database.execute("SELECT count(*) FROM points WHERE at >= ?", (seconds * 1000,))
        return int(count)


def run(rounds: int = 3) -> Result:
    """Measure every store, in turn."""
    result = Result.begin(
        "metrics", cpu="CPU a point, µs", rss="the process grows by, MiB", lost="lost by SIGKILL, points"
    )
    for _ in range(rounds):
        for key, label in _STORES.items():
            result.row(label).add(**_measure(key))
    series = len(list(_names()))
    result.notes.append(f"{PODS} pods with {CONTAINERS} containers: {series} series, {SECONDS} seconds.")
    return result


def _measure(key: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(_child("write", key, folder))
        if key == "memory":
            return measured | {"lost": float(_expected())}
        found = asyncio.run(_child("read", key, folder))
        return measured | {"lost": _expected() - found["count"]}


async def _child(what: str, key: str, folder: str) -> dict[str, float]:
    command = (sys.executable, "-m", "bench.metrics", what, key, folder)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}")
    found: dict[str, float] = json.loads(out)
    return found


def _open(key: str, folder: str, second: int) -> Rings | Sqlite:
    if key in ("memory", "mapped"):
        return Rings(Path(folder) if key == "mapped" else None, second)
    return Sqlite(Path(folder), 60 if key == "minute" else 1)


def _names() -> Iterator[Name]:
    for index in range(PODS):
        for kind in ("pod_cpu_usage", "pod_memory_usage"):
            yield kind, "pod_uid", f"7c0e{index:08d}-0000-4000-8000-000000000000"
    for index in range(CONTAINERS):
        for kind in ("container_cpu_usage", "container_memory_usage"):
            yield kind, "container_id", f"containerd://{index:064x}"


def _expected() -> int:
    return 60 * (2 * PODS + CONTAINERS) + 12 * CONTAINERS


def _write(key: str, folder: str) -> None:
    store: Store = _open(key, folder, 0)
    series = [(store.writer(name), name[0] == "container_memory_usage") for name in _names()]
    begin, points = _BEGIN.timestamp(), 0
    grown, used = -_rss(), -_cpu()
    for second in range(1, SECONDS + 1):
        for number, (add, is_slow) in enumerate(series):
            if not is_slow or second % 5 == 0:
                add(0.25 + number + second % 7, begin + second)
                points += 1
        store.end_second(second)
    used, grown = used + _cpu(), grown + _rss()
    print(json.dumps({"cpu": used / points * 1e6, "rss": grown / 2**20}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _read(key: str, folder: str) -> None:
    store = _open(key, folder, SECONDS)
    print(json.dumps({"count": store.count_since(_BEGIN.timestamp() + SECONDS - 59)}))


def _cpu() -> float:
    """Return the processor time of this process in seconds, the kernel's for it included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _rss() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    {"write": _write, "read": _read}[sys.argv[1]](*sys.argv[2:])
