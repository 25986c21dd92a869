"""Metrics in a memory-mapped file: restarts, kills, and files that are not what they should be."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from koordpy.agent.interface import Aggregation, FlagSet, MetricKind
from koordpy.agent.metrics.cache import MAX_BYTES, MetricCache
from koordpy.agent.metrics.file import HEADER_BYTES, FileError, MetricFile
from koordpy.agent.metrics.service import MetricCacheService
from koordpy.lib.clock import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)
ZERO = int(START.timestamp() * 1000)
HOUR = timedelta(hours=1)


class Folder:
    """A folder with metrics; `open` returns the cache of a new process, and closes that of the last one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock(START)
        self.cache: MetricCache | None = None

    def open(self, max_bytes: int = MAX_BYTES) -> MetricCache:
        self.close()
        self.cache = MetricCache(self.clock, max_bytes=max_bytes, file=MetricFile(self.path))
        return self.cache

    def close(self) -> None:
        if self.cache is not None:
            self.cache.close()
            self.cache = None


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path)
    yield made
    made.close()


def fill(cache, uid="u", seconds=300, kind="pod_cpu_usage"):
    series = cache.series(kind, {"pod_uid": uid})
    for second in range(seconds):
        series.append(second, ZERO + second * 1000)
    return series


def points(cache, uid="u", kind="pod_cpu_usage"):
    return list(cache.points(kind, START, START + HOUR, {"pod_uid": uid}).values)


def test_series_are_there_again_after_a_restart_and_go_on(folder):
    fill(folder.open())
    folder.clock.advance(300)
    cache = folder.open()
    assert points(cache) == list(range(300))
    cache.series("pod_cpu_usage", {"pod_uid": "u"}).append(7, ZERO + 300_000)
    fill(cache, "v", 1)
    folder.clock.advance(1)
    cache = folder.open()
    assert points(cache) == [*range(300), 7]
    assert points(cache, "v") == [0]


@pytest.mark.parametrize("text", ["with space", 'quote "', "line\nbreak", "ü"])
def test_any_text_can_be_a_property(folder, text):
    fill(folder.open(), text, 3)
    folder.clock.advance(3)
    assert points(folder.open(), text) == [0, 1, 2]


def test_what_is_too_old_after_a_restart_is_dropped(folder):
    fill(folder.open())
    folder.clock.advance(13 * 3600)
    cache = folder.open()
    assert cache.series_count == 0
    assert cache.blocks.used == 0


def test_points_of_the_future_are_dropped(folder):
    fill(folder.open())
    folder.clock.set(START - HOUR)
    assert folder.open().series_count == 0


def test_a_longer_retention_is_remembered(folder):
    cache = folder.open()
    cache.points("node_cpu_usage", START - 2 * HOUR, START)
    assert folder.open().retention_milliseconds("node_cpu_usage") == 2 * 3_600_000
    assert folder.open().retention_milliseconds("node_cpu_usage") == 2 * 3_600_000


def test_series_of_a_kind_that_is_declared_later_are_there_then(folder):
    kind = MetricKind("my_kind", ("pod_uid",))
    cache = folder.open()
    cache.declare(kind)
    fill(cache, kind="my_kind", seconds=2)
    folder.clock.advance(2)
    cache = folder.open()
    cache.declare(kind)
    assert points(cache, kind="my_kind") == [0, 1]


def test_series_of_a_kind_whose_properties_changed_are_dropped(folder):
    cache = folder.open()
    cache.declare(MetricKind("my_kind", ("pod_uid",)))
    fill(cache, kind="my_kind", seconds=2)
    cache = folder.open()
    cache.declare(MetricKind("my_kind", ("pod_uid", "more")))
    assert cache.points("my_kind", START, START + HOUR).count == 0
    assert cache.blocks.used == 0


def test_a_smaller_limit_cuts_the_file(folder):
    cache = folder.open()
    for uid in range(1500):
        fill(cache, str(uid), 1)
    assert os.path.getsize(folder.path / "points") == HEADER_BYTES + 2 * 2**20
    folder.clock.advance(1)
    assert folder.open(max_bytes=2**20).series_count == 1024
    assert os.path.getsize(folder.path / "points") == HEADER_BYTES + 2**20


def test_names_of_gone_series_do_not_pile_up(folder):
    cache = folder.open()
    for number in range(3000):
        fill(cache, str(number), 1).close()
    folder.clock.advance(3600)
    cache.collect()
    assert len((folder.path / "series").read_bytes().splitlines()) == 1
    fill(cache, "new", 1)
    folder.clock.set(START)
    assert points(folder.open(), "new") == [0]


def test_a_second_process_is_kept_out(folder):
    folder.open()
    with pytest.raises(FileError, match="in use by another process"):
        MetricFile(folder.path)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileError, match=r"absent/points: No such file or directory"):
        MetricFile(tmp_path / "absent")


@pytest.mark.parametrize("name", ["points", "series"])
@pytest.mark.parametrize("content", [b"", b"something else", bytes(100_000), b"\xff" * 100_000])
def test_foreign_files_are_set_aside(folder, caplog, name, content):
    fill(folder.open())
    folder.close()
    (folder.path / name).write_bytes(content)
    cache = folder.open()
    assert cache.series_count == 0
    if name == "series" or content:
        assert "set aside" in caplog.text
        assert (folder.path / f"{name}.set-aside").read_bytes() == content
    fill(cache)
    folder.clock.advance(300)
    assert points(folder.open()) == list(range(300))


def test_a_cut_off_name_loses_that_series_alone(folder):
    cache = folder.open()
    fill(cache, "u", 3)
    fill(cache, "v", 3)
    folder.close()
    path = folder.path / "series"
    path.write_bytes(path.read_bytes()[:-4])
    folder.clock.advance(3)
    cache = folder.open()
    assert (points(cache, "u"), points(cache, "v")) == ([0, 1, 2], [])


def test_damage_anywhere_costs_at_most_what_it_hits(folder):
    """Parts of two blocks are overwritten in turn; nothing raises, and points stay in their order."""
    fill(folder.open(), seconds=100)
    folder.close()
    path = folder.path / "points"
    whole, names = path.read_bytes(), (folder.path / "series").read_bytes()
    end = HEADER_BYTES + 2**20
    for position in range(end - 2048, end, 40):
        for damage in (b"\xff" * 8, bytes(8), b"\x7f\xf8" * 4):
            path.write_bytes(whole[:position] + damage + whole[position + 8 :])
            (folder.path / "series").write_bytes(names)
            times, _ = folder.open().series("pod_cpu_usage", {"pod_uid": "u"}).between(0, 2**62)
            assert times == sorted(times)
            folder.close()


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.metrics.file import MetricFile
from koordpy.lib.clock import FakeClock

cache = MetricCache(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)), file=MetricFile(Path(sys.argv[1])))
series = [cache.series("pod_cpu_usage", {"pod_uid": str(number)}) for number in range(20)]
for second in range(10**9):
    for each in series:
        each.append(second, ZERO + second)
    if second == int(sys.argv[2]):
        print("now", flush=True)
"""


@pytest.mark.parametrize("rounds", [3, 500, 2111])
def test_a_killed_process_leaves_all_points_that_it_wrote(folder, rounds):
    script = WRITER.replace("ZERO", str(ZERO))
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder.path), str(rounds)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    folder.clock.advance(24 * 3600)
    cache = MetricCache(folder.clock, timedelta(days=365), file=MetricFile(folder.path))
    folder.cache = cache
    for number in range(20):
        times, values = cache.series("pod_cpu_usage", {"pod_uid": str(number)}).between(0, 2**62)
        assert values[-1] >= rounds
        assert values == list(range(int(values[0]), int(values[-1]) + 1))
        assert [time - ZERO for time in times] == values


def test_a_full_disk_leaves_metrics_in_memory(folder, monkeypatch, caplog):
    cache = folder.open()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    fill(cache)
    assert points(cache) == list(range(300))
    assert "No space left on device" in caplog.text


# --- the service ----------------------------------------------------------------------------------


def flags(**given):
    made = FlagSet()
    MetricCacheService.init_flags(made)
    for name, value in given.items():
        made.set(name.replace("_", "-"), value)
    return made


def test_without_the_folder_metrics_are_in_memory_alone(tmp_path, caplog):
    service = MetricCacheService(flags(tsdb_path=str(tmp_path / "absent")), FakeClock(START))
    fill(service.cache)
    assert points(service.cache) == list(range(300))
    assert "metrics do not survive a restart: --tsdb-path" in caplog.text


def test_flags_that_have_no_effect_say_so(caplog):
    MetricCacheService(flags(tsdb_path="", tsdb_stripe_size=5), FakeClock(START))
    assert [record.message for record in caplog.records] == [
        "flag --tsdb-stripe-size has no effect: the metric cache has no locks"
    ]


@pytest.mark.parametrize(
    "given", [{"tsdb_max_bytes": 5}, {"metric_gc_interval_seconds": 0}, {"tsdb_retention_duration": "0s"}]
)
def test_flags_out_of_range_are_refused(given):
    with pytest.raises(ValueError, match=r"flag [a-z-]+: got .* expected"):
        MetricCacheService(flags(tsdb_path="", **given), FakeClock(START))


def test_the_flags_are_the_limits_of_the_cache(tmp_path):
    given = flags(tsdb_path=str(tmp_path), tsdb_retention_duration="1h", tsdb_max_bytes=2**21)
    cache = MetricCacheService(given, FakeClock(START)).cache
    cache.points("node_cpu_usage", START - 9 * HOUR, START)
    assert cache.retention_milliseconds("node_cpu_usage") == 3_600_000
    for uid in range(3000):
        fill(cache, str(uid), 1)
    assert cache.bytes_used <= 2**21
    assert cache.query("pod_cpu_usage", Aggregation.COUNT, START, START + HOUR) < 3000
    cache.close()
