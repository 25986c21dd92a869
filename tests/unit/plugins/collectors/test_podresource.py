import resource

import msgspec
import pytest

from koordpy.agent.interface.facts import PODS_NUMA_USAGE, PODS_USAGE
from koordpy.api.core import ResourceRequirements
from koordpy.api.scheme import decode
from koordpy_plugins.collectors.podresource.plugin import PodResource
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, V1, V2, NodeFiles, pod

EVERY_TIME = {"containersWithoutBurst": "EveryTime"}
POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"
CONTAINER = f"{POD}/cri-containerd-c1.scope"


@pytest.mark.parametrize("version", [V1, V2])
def test_usage_of_a_pod_and_its_containers_is_cpu_time_by_wall_time(tmp_path, version):
    node = NodeFiles(tmp_path, PodResource, pod("u", "c1"), version=version, args=EVERY_TIME)
    node.usage(POD, 0, 10)
    node.usage(CONTAINER, 0, 20)
    node.collect()
    assert node.missing("pod_cpu_usage", pod_uid="u")
    assert node.missing("pod_memory_usage", pod_uid="u")
    node.usage(POD, 3000, 10)
    node.usage(CONTAINER, 1000, 20)
    node.collect(seconds=2)
    assert node.values("pod_cpu_usage", pod_uid="u") == 1.5
    assert node.values("pod_memory_usage", pod_uid="u") == 16
    assert node.values("container_cpu_usage", container_id="containerd://c1") == 0.5
    for _ in range(5):
        node.collect(seconds=1)
    assert node.values("container_memory_usage", container_id="containerd://c1") == 26


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 3),  # the first, and one in each five seconds
        ({"gates": {"BEMemoryEvict": True}}, 10),
        ({"gates": {"MemoryEvict": True}}, 10),
        ({"args": {"podMemory": "EveryTime"}}, 10),
    ],
)
def test_memory_of_pods_is_read_every_second_only_where_something_decides_by_it(tmp_path, options, count):
    node = NodeFiles(tmp_path, PodResource, pod("u"), **options)
    node.usage(POD, 0, 10)
    node.collect()
    for size in range(10):
        node.usage(POD, 0, size)
        node.collect(seconds=1)
    assert node.count("pod_memory_usage", pod_uid="u") == count
    assert node.count("pod_cpu_usage", pod_uid="u") == 10


def test_sums_have_what_a_pod_used_when_it_was_last_read(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"))
    node.usage(POD, 0, 10)
    node.collect()
    node.collect(seconds=1)
    known = node.fact(PODS_USAGE)["podresource"].memory
    assert known > 0
    node.usage(POD, 0, 30)
    node.collect(seconds=1)
    assert node.fact(PODS_USAGE)["podresource"].memory == known
    for _ in range(4):
        node.collect(seconds=1)
    assert node.fact(PODS_USAGE)["podresource"].memory > known


def test_the_memory_of_each_container_is_read_once_in_five_seconds(tmp_path):
    names = [f"c{index}" for index in range(7)]
    node = NodeFiles(tmp_path, PodResource, pod("u", *names), args=EVERY_TIME)
    node.usage(POD, 0, 1)
    for name in names:
        node.usage(f"{POD}/cri-containerd-{name}.scope", 0, 1)
    node.collect()
    for _ in range(20):
        node.collect(seconds=1)
    counts = {node.count("container_memory_usage", container_id=f"containerd://{name}") for name in names}
    assert counts == {4}
    assert node.count("container_cpu_usage", container_id="containerd://c0") == 20


def test_with_a_long_interval_memory_is_read_every_time(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u", "c1"), flags={"collect-res-used-interval": "5s"})
    node.usage(POD, 0, 1)
    node.usage(CONTAINER, 0, 1)
    node.collect()
    for _ in range(3):
        node.collect(seconds=5)
    assert node.count("container_memory_usage", container_id="containerd://c1") == 3


def test_sums_are_of_the_pods_that_could_be_measured(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"), pod("w"), pod("gone"))
    other = POD.replace("podu", "podw")
    for seconds in (0, 1):
        node.usage(POD, 500 * seconds, 10)
        node.usage(other, 250 * seconds, 20)
        node.collect(seconds=seconds)
    usage = node.fact(PODS_USAGE)["podresource"]
    assert (usage.cpu, usage.memory) == (0.75, 16 + 26)
    assert usage.at == node.clock.now().timestamp()
    assert node.missing("pod_cpu_usage", pod_uid="gone")


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        (V1, "total=30 N0=10 N1=20\nfile=1 N0=1 N1=0\n", {0: 40960, 1: 81920}),
        (V2, "anon N0=8191 N1=4096\nfile N0=4096 N1=0\nshmem N0=4096 N1=0\n", {0: 8192, 1: 4096}),
    ],
)
def test_memory_by_numa_node_is_added_up(tmp_path, version, text, expected):
    node = NodeFiles(tmp_path, PodResource, pod("u"), version=version)
    node.cgroup(POD, memory__numa_stat=text)
    for seconds in (0, 1):
        node.usage(POD, 500 * seconds, 10)
        node.collect(seconds=seconds)
    assert node.fact(PODS_NUMA_USAGE)["podresource"].memory == expected


def test_without_numa_statistics_there_is_no_sum_by_numa_node(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"))
    for seconds in (0, 1):
        node.usage(POD, 500 * seconds, 10)
        node.collect(seconds=seconds)
    assert node.fact(PODS_NUMA_USAGE) == {}


def test_a_counter_that_went_back_or_was_read_long_ago_starts_anew(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"))
    for usage, seconds in ((9000, 0), (500, 1), (600, 1), (90000, 21)):
        node.usage(POD, usage, 10)
        node.collect(seconds=seconds)
    assert node.count("pod_cpu_usage", pod_uid="u") == 1
    assert node.values("pod_cpu_usage", pod_uid="u") == pytest.approx(0.1)


def test_pods_come_and_go(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"), args=EVERY_TIME)
    node.usage(POD, 0, 10)
    node.collect()
    later = pod("w", "c1")
    node.apply(later)
    directory = POD.replace("podu", "podw")
    for usage in (0, 1000):
        node.usage(POD, usage, 10)
        node.usage(directory, usage, 10)
        node.usage(f"{directory}/cri-containerd-c1.scope", usage, 10)
        node.collect(seconds=1)
    assert node.values("container_cpu_usage", container_id="containerd://c1") == 1.0
    node.remove(later)
    node.collect(seconds=1)
    assert node.missing("container_cpu_usage", container_id="containerd://c1")
    assert node.count("pod_cpu_usage", pod_uid="u") == 3


def test_a_pod_without_a_cgroup_is_found_when_it_gets_one(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"))
    for _ in range(40):
        node.collect(seconds=1)
    for usage in range(8):
        node.usage(POD, usage * 1000, 10)
        node.collect(seconds=1)
    assert node.values("pod_cpu_usage", pod_uid="u") == 1.0


def test_terminated_pods_are_left_out_if_wanted(tmp_path):
    ended = pod("u")
    ended.status.phase = "Failed"
    node = NodeFiles(tmp_path, PodResource, ended, args={"pods": "Running"})
    for usage in (0, 1000):
        node.usage(POD, usage, 10)
        node.collect(seconds=1)
    assert node.missing("pod_cpu_usage", pod_uid="u")


def numa_stat(own, anon, unevictable):
    """Return pages of a v1 group: its own, then those of the whole tree."""
    names = ("total", "file", "anon", "unevictable")
    lines = [f"{name}={own} N0={own} N1=0" for name in names]
    sizes = (anon + unevictable + 5, 5, anon, unevictable)
    lines += [f"hierarchical_{name}={size} N0={size} N1=0" for name, size in zip(names, sizes, strict=True)]
    return "\n".join([*lines, ""])


def test_v1_counts_the_memory_in_use_in_numa_stat_too(tmp_path):
    node = NodeFiles(
        tmp_path, PodResource, pod("u", "c1"), version=V1, gates={"MemoryEvict": True}, args=EVERY_TIME
    )
    node.usage(POD, 0, 10)
    node.usage(CONTAINER, 0, 20)
    node.cgroup(POD, memory__numa_stat=numa_stat(6, 50, 1))
    node.collect()
    page = resource.getpagesize()
    for own, anon, unevictable in ((7, 100, 3), (8, 200, 0)):
        node.cgroup(POD, memory__numa_stat=numa_stat(own, anon, unevictable))
        node.collect(seconds=1)
        assert node.values("pod_memory_usage", pod_uid="u") == (anon + unevictable) * page
    for _ in range(5):
        node.collect(seconds=1)
    assert node.fact(PODS_NUMA_USAGE)["podresource"].memory == {0: 8 * page, 1: 0}
    assert node.values("container_memory_usage", container_id="containerd://c1") == 26  # has no numa_stat


def test_a_group_that_is_removed_and_made_again_is_measured_again(tmp_path):
    node = NodeFiles(tmp_path, PodResource, pod("u"), version=V1)

    def make(cpu, anon):
        node.usage(POD, cpu, 10)
        node.cgroup(POD, memory__numa_stat=numa_stat(0, anon, 0))

    make(5000, 1)
    node.collect()
    node.collect(seconds=1)
    assert node.count("pod_cpu_usage", pod_uid="u") == 1
    for subsystem in ("cpuacct", "memory"):
        for file in (node.cgroups / subsystem / POD).iterdir():
            file.write_text("")  # a removed group cannot be read any more
    node.collect(seconds=1)
    assert node.count("pod_cpu_usage", pod_uid="u") == 1
    make(0, 4)  # the counter begins anew
    node.collect(seconds=1)
    make(500, 4)
    node.collect(seconds=1)
    assert node.count("pod_cpu_usage", pod_uid="u") == 2
    assert node.values("pod_cpu_usage", pod_uid="u") == pytest.approx(0.5)
    assert node.values("pod_memory_usage", pod_uid="u") == 4 * resource.getpagesize()


@pytest.mark.parametrize(
    ("args", "qos", "limits", "expected"),
    [
        ({}, "LS", {}, 3),
        ({}, "LS", {"cpu": "1"}, 19),
        ({}, "LSR", {"cpu": "1"}, 3),
        ({}, "BE", {"cpu": "1"}, 3),
        ({"containersWithoutBurst": "EveryTime"}, "LS", {}, 19),
        ({"containersWithoutBurst": "EveryTime"}, "BE", {"cpu": "1"}, 19),
    ],
)
def test_cpu_usage_that_no_burst_depends_on_is_measured_in_turns(tmp_path, args, qos, limits, expected):
    placed = pod("u", "c1")
    placed.metadata.labels["koordinator.sh/qosClass"] = qos
    container = msgspec.structs.replace(
        placed.spec.containers[0], name="c1", resources=decode(ResourceRequirements, {"limits": limits})
    )
    spec = msgspec.structs.replace(placed.spec, containers=[container])
    node = NodeFiles(tmp_path, PodResource, msgspec.structs.replace(placed, spec=spec), args=args)
    directory = node.handle.states.pods()[0].cgroup_dir
    for second in range(20):
        node.usage(directory, 1000 * second, 10)
        node.usage(f"{directory}/cri-containerd-c1.scope", 500 * second, 20)
        node.collect(seconds=1)
    assert node.count("container_cpu_usage", container_id="containerd://c1") == expected
    assert node.values("container_cpu_usage", container_id="containerd://c1") == pytest.approx(0.5)
    assert node.count("pod_cpu_usage", pod_uid="u") == 19
