"""Rounds of SystemConfigReconcile on folders that look like /proc and /sys."""

from pathlib import Path
from typing import Any

import pytest

from koordpy.api.koordinator import NodeSLO
from koordpy.testing.cluster import cluster
from koordpy.testing.node import set_up
from koordpy_plugins.qos.sysreconcile import SystemConfigReconcile

from ..documents import node, slo

FEATURES = "sys/kernel/debug/sched_features"


class Stage:
    def __init__(self, folder: Path, memory: str = "16Gi", **strategy: Any) -> None:
        self.folder = folder
        for name, text in (
            ("proc/sys/vm/min_free_kbytes", "67584\n"),
            ("proc/sys/vm/watermark_scale_factor", "10\n"),
            (FEATURES, "GENTLE_FAIR_SLEEPERS NO_HRTICK\n"),
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self.cluster = cluster(node(memory), slo(systemStrategy=strategy))
        on = set_up(
            SystemConfigReconcile,
            self.cluster,
            "n",
            folder / "cgroup",
            proc_root=folder / "proc",
            sys_root=folder / "sys",
        )
        self.plugin = on.plugin

    def text(self, name: str) -> str:
        return (self.folder / name).read_text().strip()


def test_free_memory_is_a_share_of_the_nodes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, minFreeKbytesFactor=100, watermarkScaleFactor=200)
    stage.plugin.reconcile()
    assert stage.text("proc/sys/vm/min_free_kbytes") == str(16 * 1024 * 1024 * 100 // 10000)
    assert stage.text("proc/sys/vm/watermark_scale_factor") == "200"


def test_values_that_the_kernel_should_not_get_are_logged_once_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, memory="512Mi", minFreeKbytesFactor=1, watermarkScaleFactor=200)
    stage.plugin.reconcile()
    stage.plugin.reconcile()
    assert stage.text("proc/sys/vm/min_free_kbytes") == "67584"
    assert stage.text("proc/sys/vm/watermark_scale_factor") == "200"
    assert caplog.text.count("vm.min_free_kbytes: 52 is not in") == 1


def test_settings_that_the_kernel_lacks_are_no_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path, memcgReapBackGround=1, pageCacheLimitEnabled=1)
    stage.plugin.reconcile()
    assert "WARNING" not in caplog.text


@pytest.mark.parametrize(
    ("wanted", "written"),
    [
        ({"HRTICK": True}, "HRTICK"),
        ({"GENTLE_FAIR_SLEEPERS": False}, "NO_GENTLE_FAIR_SLEEPERS"),
        ({"GENTLE_FAIR_SLEEPERS": True, "HRTICK": False}, "GENTLE_FAIR_SLEEPERS NO_HRTICK"),
    ],
)
def test_scheduler_features_are_switched_where_they_differ(
    tmp_path: Path, wanted: dict[str, bool], written: str
) -> None:
    stage = Stage(tmp_path, schedFeatures=wanted)
    stage.plugin.reconcile()
    assert stage.text(FEATURES) == written


def test_contradictory_scheduler_features_are_left_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path, schedFeatures={"HRTICK": True}, watermarkScaleFactor=50)
    (tmp_path / FEATURES).write_text("HRTICK NO_HRTICK\n")
    stage.plugin.reconcile()
    assert stage.text(FEATURES) == "HRTICK NO_HRTICK"
    assert stage.text("proc/sys/vm/watermark_scale_factor") == "50"


def test_without_a_strategy_nothing_is_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path, watermarkScaleFactor=200)
    stage.cluster.store(NodeSLO).discard("n")
    stage.plugin.reconcile()
    assert stage.text("proc/sys/vm/watermark_scale_factor") == "10"
