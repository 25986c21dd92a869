import pytest

from koordpy_plugins.collectors.podthrottled.plugin import PodThrottled
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, V1, V2, NodeFiles, pod

POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"
CONTAINER = f"{POD}/cri-containerd-c1.scope"


def throttle(node, directory, periods, throttled):
    node.cgroup(directory, cpu__stat=f"usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\n")


@pytest.mark.parametrize("version", [V1, V2])
def test_the_ratio_is_of_the_periods_since_the_last_reading(tmp_path, version):
    node = NodeFiles(tmp_path, PodThrottled, pod("u", "c1"), version=version)
    throttle(node, POD, 100, 50)
    throttle(node, CONTAINER, 100, 50)
    node.collect()
    assert node.missing("pod_cpu_throttled", pod_uid="u")
    throttle(node, POD, 110, 55)
    throttle(node, CONTAINER, 110, 51)
    node.collect(seconds=1)
    assert node.values("pod_cpu_throttled", pod_uid="u") == 0.5
    assert node.values("container_cpu_throttled", container_id="containerd://c1") == pytest.approx(0.1)


def test_a_group_without_periods_is_0_and_still_noticed_within_five_seconds(tmp_path):
    node = NodeFiles(tmp_path, PodThrottled, pod("u"))
    throttle(node, POD, 0, 0)
    for _ in range(4):
        node.collect(seconds=1)
    assert node.values("pod_cpu_throttled", pod_uid="u") == 0
    assert node.count("pod_cpu_throttled", pod_uid="u") == 3
    throttle(node, POD, 20, 10)
    ratios = []
    for _ in range(5):
        node.collect(seconds=1)
        ratios.append(node.values("pod_cpu_throttled", pod_uid="u"))
    assert 0.5 in ratios


def test_a_group_that_was_unreadable_starts_anew(tmp_path):
    node = NodeFiles(tmp_path, PodThrottled, pod("u"))
    node.collect()
    throttle(node, POD, 100, 100)
    for _ in range(6):
        node.collect(seconds=1)
    assert node.values("pod_cpu_throttled", pod_uid="u") == 0
