"""Files of the agent that are damaged or cannot be written: it starts, warns, and never has wrong values."""

import json
import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koordpy.agent.cgroups.changes import Changes, Place
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.interface import Aggregation, MetricKind, Update
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.metrics.file import MetricFile
from koordpy.agent.prediction.checkpoints import Checkpoints
from koordpy.agent.prediction.models import HalfLives, Models
from koordpy.lib.clock import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIND = MetricKind("usage", ("uid",), "cores", timedelta(minutes=30))
EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


FILES = st.sampled_from(["points", "series"])


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def cache_of(folder: Path, at: datetime = NOW) -> MetricCache:
    cache = MetricCache(FakeClock(at), file=MetricFile(folder))
    cache.declare(KIND)
    return cache


def fill(folder: Path) -> set[float]:
    """Write some series; return their values."""
    cache = cache_of(folder)
    values = set()
    for uid in range(5):
        for second in range(100):
            value = uid * 1000.0 + second
            values.add(value)
            cache.series("usage", {"uid": str(uid)}).add(value, NOW.timestamp() - 200 + second)
    cache.close()
    return values


@EXAMPLES
@given(
    damage=st.lists(
        st.tuples(
            st.sampled_from(["points", "series"]), st.floats(0, 0.999), st.binary(min_size=1, max_size=8)
        ),
        min_size=1,
        max_size=6,
    ),
    cut=st.none() | st.tuples(FILES, st.floats(0, 1)),
)
def test_damaged_metrics_never_prevent_the_start(
    tmp_path_factory: pytest.TempPathFactory,
    damage: list[tuple[str, float, bytes]],
    cut: tuple[str, float] | None,
) -> None:
    folder = tmp_path_factory.mktemp("metrics")
    fill(folder)
    for name, where, data in damage:
        path = folder / name
        content = bytearray(path.read_bytes())
        # The parts that are in use are at the beginning.
        at = int(where * min(len(content), 65536 + 16 * 1024 if name == "points" else len(content)))
        content[at : at + len(data)] = data
        path.write_bytes(content)
    if cut is not None:
        path = folder / cut[0]
        path.write_bytes(path.read_bytes()[: int(cut[1] * path.stat().st_size)])
    cache = cache_of(folder)
    points = cache.points("usage", NOW - timedelta(hours=1), NOW)
    if points.count:
        assert math.isfinite(points.value(Aggregation.LAST))
        assert math.isfinite(points.value(Aggregation.P99))
    cache.series("usage", {"uid": "new"}).add(1.0, NOW.timestamp())
    start = NOW - timedelta(seconds=1)
    assert cache.query("usage", Aggregation.LAST, start, NOW, {"uid": "new"}) == 1.0
    cache.close()


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1), timedelta(seconds=-90)])
def test_metrics_of_another_time_are_not_taken_for_those_of_now(tmp_path: Path, jump: timedelta) -> None:
    fill(tmp_path)
    now = NOW + jump
    cache = cache_of(tmp_path, now)
    for second in range(10):
        cache.series("usage", {"uid": "0"}).add(-1.0, now.timestamp() - 10 + second)
    values = cache.points("usage", now - timedelta(seconds=10), now, {"uid": "0"})
    assert values.value(Aggregation.AVG) == -1.0
    cache.close()


TIMES = st.sampled_from(
    ["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "x", "", None]
)
BUCKETS = st.sampled_from(["0", "1", "5", "400", "999999999", "-1", "x", ""])
NUMBERS: st.SearchStrategy[Any] = st.sampled_from(
    [0, -1, 1, 10000, 2**32 - 1, 2**32, 1e308, -1e308, 1e-300, "x", None, []]
)


@EXAMPLES
@given(
    weights=st.none()
    | st.dictionaries(
        st.sampled_from(["0", "1", "5", "400", "999999999", "-1", "x", ""]), NUMBERS, max_size=5
    ),
    total=NUMBERS | st.sampled_from([math.inf, -math.inf, math.nan]),
    time=st.sampled_from(
        ["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "x", "", None]
    ),
    part=st.sampled_from(["CPU", "Memory"]),
)
def test_no_checkpoint_makes_predictions_that_are_no_numbers(
    tmp_path_factory: pytest.TempPathFactory, weights: Any, total: Any, time: Any, part: str
) -> None:
    folder = tmp_path_factory.mktemp("checkpoints")
    saved = {"referenceTimestamp": time, "bucketWeights": weights, "totalWeight": total}
    (folder / "u").write_text(json.dumps({"UID": "u", part: saved, "LastUpdated": time}))
    models = Models(HalfLives(timedelta(hours=12), timedelta(hours=24)))
    checkpoints = Checkpoints(folder)
    checkpoints.restore(models, {"u"})
    for model in models.by_key.values():
        for histogram in (model.cpu, model.memory):
            found = histogram.percentile(0.95)
            assert 0 <= found < math.inf
        checkpoints.save("u", model, NOW)


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 100, b"[" * 100_000, b"{}", b"3", b'{"UID": "u", "CPU": ']
)
def test_a_checkpoint_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "u").write_bytes(content)
    Checkpoints(tmp_path).restore(Models(HalfLives(timedelta(hours=12), timedelta(hours=24))), {"u"})
    assert str(tmp_path / "u") in caplog.text


def test_a_full_disk_stops_neither_measuring_nor_writing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metrics").mkdir()
    cache = cache_of(tmp_path / "metrics")
    root = tmp_path / "cgroup"
    files = CgroupFiles(root, Version.V1, proc_root=tmp_path / "proc", sys_root=tmp_path / "sys")
    path = files.path("cpu.shares", "kubepods")
    path.parent.mkdir(parents=True)
    path.write_text("1024")
    changes = Changes(tmp_path / "changes", Place(str(root), Version.V1.value, "", ""), boot="1")
    executor = Executor(files, FakeClock(NOW), changes=changes)
    models = Models(HalfLives(timedelta(hours=12), timedelta(hours=24)))
    kernel: list[str] = []
    files.write = lambda name, directory, text: kernel.append(text)  # type: ignore[method-assign]
    with full_disk():
        for uid in range(50):
            cache.series("usage", {"uid": str(uid)}).add(1.0, NOW.timestamp())
        executor.update(Update("cpu.shares", "kubepods", "2"))
        with pytest.raises(OSError, match="File too large"):
            Checkpoints(tmp_path).save("u", models.new(), NOW)
    assert cache.points("usage", NOW, NOW).count == 50
    assert kernel == ["2"]
    assert "remembered in memory alone" in caplog.text
    cache.close()
    changes.close()
