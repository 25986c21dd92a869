import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.node_requests import NodeRequests, PodRequests

CPU = 1_000_000_000


def pod(name: str, cpu: str, phase: str = "Running", **spec: object) -> Pod:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return decode(
        Pod,
        {
            "metadata": {"namespace": "a", "name": name},
            "spec": {"nodeName": "n1", "containers": containers, **spec},
            "status": {"phase": phase},
        },
    )


def test_sums_follow_pods_until_they_end() -> None:
    cluster = Cluster()
    requests, pods = cluster.shared(NodeRequests), cluster.store(Pod)
    pods.apply(pod("1", "1"))
    pods.apply(pod("2", "500m"))
    assert requests.on("n1") == {"cpu": 3 * CPU // 2}
    pods.apply(pod("1", "2"))
    assert requests.on("n1") == {"cpu": 5 * CPU // 2}
    pods.apply(pod("1", "2", "Succeeded"))
    assert requests.on("n1") == {"cpu": CPU // 2}
    pods.discard("a/2")
    assert requests.on("n1") == {}


def test_a_pod_with_an_invalid_amount_counts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    requests, pods = cluster.shared(NodeRequests), cluster.store(Pod)
    pods.apply(pod("1", "1"))
    pods.apply(pod("1", "much"))
    assert requests.on("n1") == {}
    assert "the requests of pod a/1 are not counted: quantity 'much'" in caplog.text
    pods.apply(pod("1", "3"))
    assert requests.on("n1") == {"cpu": 3 * CPU}


def test_equal_containers_are_read_once_and_overhead_is_added() -> None:
    requests, first = PodRequests(), pod("1", "1")
    second = pod("2", "9")
    second.spec.containers, second.spec.init_containers = first.spec.containers, first.spec.init_containers
    assert requests.of(second) is requests.of(first)
    assert requests.of(pod("3", "1", overhead={"cpu": "1"})) == {"cpu": 2 * CPU}
