"""The predict server as a service: its checkpoints in a folder, over restarts, and its flags."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.agent.interface import FlagSet, PodMeta, Sample
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.prediction.histogram import CPU_BUCKETS, DecayingHistogram, nanoseconds
from koordpy.agent.prediction.models import NODE, SYSTEM
from koordpy.agent.prediction.service import PredictServer
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.lib.clock import FakeClock

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class OneNode:
    """The states of a node with pods."""

    def __init__(self, *uids):
        self.uids = list(uids)

    def pods(self):
        return [PodMeta(decode(Pod, {"metadata": {"name": uid, "uid": uid}}), "") for uid in self.uids]

    def node(self):
        return decode(Node, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8"}}})


class World:
    """A node, its metrics and its predict server."""

    def __init__(self, folder, *uids, **flags):
        self.clock = FakeClock(START)
        self.states: Any = OneNode(*uids)
        self.metrics = MetricCache(self.clock)
        self.flags = FlagSet()
        PredictServer.init_flags(self.flags)
        self.flags.set("prediction-checkpoint-filepath", str(folder))
        for name, value in flags.items():
            self.flags.set(name.replace("_", "-"), value)
        self.restart()

    def restart(self):
        self.server = PredictServer(
            self.states, self.metrics, self.flags, lambda: nanoseconds(self.clock.now())
        )
        return self.server.restore()

    def train(self, seconds=60):
        self.clock.advance(seconds)
        now = self.clock.now()
        for uid in self.states.uids:
            properties = {"pod_uid": uid}
            self.metrics.append(
                [
                    Sample("pod_cpu_usage", 1.5, now, properties),
                    Sample("pod_memory_usage", 2**30, now, properties),
                ]
            )
        self.metrics.append(
            [Sample("node_cpu_usage", 4, now, {}), Sample("node_memory_usage", 2**33, now, {})]
        )
        self.server.train()


def test_models_survive_a_restart(tmp_path):
    world = World(tmp_path, "a", "b")
    world.train()
    assert len(world.server.save()) == 9
    before = {key: world.server.models.percentiles(key, 0.95, 0.98) for key in world.server.models.by_key}
    assert world.restart() == []
    after = {key: world.server.models.percentiles(key, 0.95, 0.98) for key in world.server.models.by_key}
    assert before == after
    assert world.server.not_ready() == "the models are not trained yet"


def test_a_checkpoint_is_one_that_koordlet_reads(tmp_path):
    world = World(tmp_path, "a")
    world.train()
    world.server.save()
    saved = json.loads((tmp_path / "a").read_text())
    assert saved["UID"] == "a"
    assert saved["LastUpdated"] == "2026-01-01T12:01:00Z"
    assert saved["CPU"]["referenceTimestamp"] == "2026-01-01T12:00:00Z"
    assert saved["CPU"]["bucketWeights"] == {str(CPU_BUCKETS.find(1.5)): 10000}
    assert math.isclose(saved["CPU"]["totalWeight"], 2 ** (60 / 43200))


def test_checkpoints_of_gone_pods_and_damaged_ones_are_removed(tmp_path):
    world = World(tmp_path, "a", "b")
    world.train()
    world.server.save()
    (tmp_path / "b").write_text('{"UID": "b", "CPU": 3}')
    (tmp_path / "c.tmp").write_text("half")
    (tmp_path / "folder").mkdir()
    world.states.uids = ["b"]
    assert world.restart() == ["a", "b"]
    names = {path.name for path in tmp_path.iterdir()}
    assert names & {"a", "b", "c.tmp"} == set()
    assert {NODE, SYSTEM, "folder"} <= names


def test_only_so_many_checkpoints_are_written_at_once_and_each_when_it_is_due(tmp_path):
    world = World(tmp_path, "a", "b", prediction_model_checkpoint_max_per_step=5)
    world.train()
    assert [len(world.server.save()) for _ in range(3)] == [5, 4, 0]
    world.clock.advance(600)
    assert len(world.server.save()) == 5


def test_models_of_gone_pods_expire_with_their_files(tmp_path):
    world = World(tmp_path, "a", "b")
    world.train()
    world.server.save()
    world.states.uids = ["b"]
    world.train(1801)
    world.server.expire()
    assert "a" not in world.server.models.by_key
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").exists()


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    world = World(tmp_path / "file" / "folder", "a")
    world.train()
    world.server.save()
    assert [record.levelname for record in caplog.records if "not kept" in record.message] == ["WARNING"]


def test_a_uid_that_is_no_file_name_is_never_written(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    world = World(folder, "../outside")
    world.train()
    world.server.save()
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_flags_that_no_time_can_pass_by_are_refused(tmp_path):
    with pytest.raises(ValueError, match="prediction-training-interval"):
        World(tmp_path, prediction_training_interval=timedelta())


def test_old_samples_weigh_half_after_a_half_life():
    histogram = DecayingHistogram(CPU_BUCKETS, nanoseconds(datetime(1, 1, 1, 1, tzinfo=UTC)))
    histogram.add(1, nanoseconds(START))
    first = histogram.total
    histogram.add(2, nanoseconds(START + timedelta(hours=1)))
    assert math.isclose(histogram.total, first + 2 * first)
    assert histogram.saved_weights() == {CPU_BUCKETS.find(1): 5000, CPU_BUCKETS.find(2): 10000}


def test_weights_stay_finite_over_years():
    histogram = DecayingHistogram(CPU_BUCKETS, nanoseconds(datetime(1, 1, 1, 1, tzinfo=UTC)))
    for year in range(10):
        histogram.add(1 + year, nanoseconds(START + timedelta(days=365 * year)))
    assert histogram.percentile(0.5) == CPU_BUCKETS.start(CPU_BUCKETS.find(10) + 1)
