import pytest

from koordpy.agent.interface import CollectError, Update
from koordpy_plugins.collectors.beresource.plugin import BestEffortResource
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, V1, V2, NodeFiles, pod

POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"


def measured(node, allocation):
    return node.values("node_be", be_resource="cpu", be_allocation=allocation)


def cpuset(node, directory, text):
    if node.version is V2:
        node.cgroup(directory, cpuset__cpus__effective=text)
    else:
        node.cgroup(directory, cpuset__cpus=text)


def quota(node, quota_us, period=100_000):
    if node.version is V2:
        node.cgroup(BEST_EFFORT, cpu__max=f"{'max' if quota_us < 0 else quota_us} {period}\n")
    else:
        node.cgroup(BEST_EFFORT, cpu__cfs_quota_us=f"{quota_us}\n", cpu__cfs_period_us=f"{period}\n")


@pytest.fixture(params=[V1, V2])
def node(request, tmp_path):
    objects = [pod("u", batch_cpu=2500), pod("v", batch_cpu=500), pod("ls", best_effort=False)]
    node = NodeFiles(tmp_path, BestEffortResource, *objects, version=request.param)
    cpuset(node, BEST_EFFORT, "0-7\n")
    cpuset(node, f"{POD}/cri-containerd-c.scope", "0-3\n")
    cpuset(node, f"{POD}/cri-containerd-sandbox.scope", "0-15\n")
    cpuset(node, POD, "0\n")  # a pod's own set does not count
    quota(node, -1)
    node.usage(BEST_EFFORT, 0)
    return node


def test_the_limit_is_the_smallest_cpu_set_of_a_container_or_the_quota(node):
    node.collect()
    assert measured(node, "real-limit") == 4000
    quota(node, 250_000)
    node.collect(seconds=1)
    assert measured(node, "real-limit") == 2500
    quota(node, 900_000)
    node.collect(seconds=1)
    assert measured(node, "real-limit") == 4000


def test_the_request_is_the_batch_cpu_of_best_effort_pods(node):
    node.collect()
    assert measured(node, "request") == 3000
    node.apply(pod("w", batch_cpu=100))
    node.collect(seconds=1)
    assert measured(node, "request") == 3100


def test_usage_is_in_whole_milli_cpu_and_first_0(node):
    node.collect()
    assert measured(node, "usage") == 0
    node.usage(BEST_EFFORT, 1003)
    node.collect(seconds=3)
    assert measured(node, "usage") == 334


def test_a_new_container_counts(node):
    node.collect()
    cpuset(node, f"{POD}/cri-containerd-d.scope", "5\n")
    node.pods_changed()
    node.collect(seconds=1)
    assert measured(node, "real-limit") == 1000


def test_a_missing_cgroup_is_named(tmp_path):
    node = NodeFiles(tmp_path, BestEffortResource)
    with pytest.raises(CollectError, match=r"cannot measure best-effort pods: .*besteffort"):
        node.collect()


def test_sets_of_containers_are_read_again_after_a_write_of_the_agent_and_now_and_then(node):
    container = f"{POD}/cri-containerd-c.scope"
    node.collect()
    cpuset(node, container, "0-1\n")  # by others
    for _ in range(5):
        node.collect(seconds=1)
    assert measured(node, "real-limit") == 2000
    cpuset(node, container, "0\n")
    node.cgroup(BEST_EFFORT, cpu__cfs_burst_us="0\n", cpu__max__burst="0\n")
    node.handle.executor.update(Update("cpu.cfs_burst_us", BEST_EFFORT, "5"))
    node.collect(seconds=1)
    assert measured(node, "real-limit") == 1000
    cpuset(node, container, "0-2\n")
    cpuset(node, BEST_EFFORT, "0-6\n")
    node.collect(seconds=1)
    assert measured(node, "real-limit") == 3000
