"""Pods and NodeSLOs whose names lead to other cgroups, or whose amounts are none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.agent.interface import CgroupLayout
from koordpy.agent.states import resource_gauges
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.exposition import exposition

MIRROR = "kubernetes.io/config.mirror"
HOSTILE = ["..", "../../..", "a/b", "/etc", "\0", "x" * 5000, "é", "a b", "."]


class States:
    """The states of a node n with some pods."""

    def __init__(self, systemd: bool = False) -> None:
        self.cluster = Cluster(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
        self.informer = StatesInformer(self.cluster, "n", CgroupLayout(systemd=systemd))

    def pod(self, name: str, uid: str, created: str = "2026-01-01T00:00:00Z", **changes: Any) -> None:
        meta = {"name": name, "namespace": "d", "uid": uid, "creationTimestamp": created, **changes}
        spec = {"nodeName": "n", "containers": [{"name": "c"}]}
        self.cluster.store(Pod).put(decode(Pod, {"metadata": meta, "spec": spec}))

    def directories(self) -> dict[str, str]:
        return {meta.pod.metadata.name: meta.cgroup_dir for meta in self.informer.pods()}


@pytest.mark.parametrize("uid", HOSTILE)
def test_a_pod_whose_uid_is_a_path_is_left_alone(uid: str, caplog: pytest.LogCaptureFixture) -> None:
    states = States()
    states.pod("good", "u1")
    states.pod("bad", uid)
    assert states.directories() == {"good": "kubepods/besteffort/podu1"}
    assert len(caplog.text) < 1000
    assert "pod d/bad is left alone" in caplog.text


@pytest.mark.parametrize("claimed", HOSTILE)
def test_an_annotation_of_static_pods_that_is_a_path_is_ignored(claimed: str) -> None:
    states = States()
    states.pod("bad", "u1", annotations={MIRROR: claimed})
    assert states.directories() == {"bad": "kubepods/besteffort/podu1"}


def test_a_pod_cannot_claim_the_cgroup_of_another_one() -> None:
    states = States()
    states.pod("thief", "u0", created="2025-01-01T00:00:00Z", annotations={MIRROR: "u1"})
    states.pod("victim", "u1")
    assert states.directories() == {"victim": "kubepods/besteffort/podu1"}


def test_of_pods_that_claim_one_static_pod_the_oldest_has_it() -> None:
    states = States()
    states.pod("a-thief", "u0", annotations={MIRROR: "static"})
    states.pod("static", "u1", created="2025-01-01T00:00:00Z", annotations={MIRROR: "static"})
    states.pod("twin", "same")
    states.pod("twin2", "same")
    assert set(states.directories()) == {"static", "twin"}


@pytest.mark.parametrize("systemd", [False, True])
@pytest.mark.parametrize("identifier", HOSTILE)
def test_a_container_whose_id_is_a_path_has_no_cgroup(systemd: bool, identifier: str) -> None:
    with pytest.raises(ValueError, match="container id") as raised:
        CgroupLayout(systemd=systemd).container("kubepods/podu", f"containerd://{identifier}")
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "application",
    [
        {"name": "../../x"},
        {"name": "a", "cgroupPath": {"base": "Kubepods", "parentDir": "../..", "relativePath": "x"}},
        {"name": "a", "cgroupPath": {"base": "CgroupRoot", "parentDir": "/", "relativePath": "/../etc"}},
        {"name": "x" * 5000},
        {"name": "\0"},
    ],
)
def test_a_host_application_elsewhere_is_left_alone(application: dict[str, Any]) -> None:
    states = States()
    spec = {"hostApplications": [application, {"name": "good", "qos": "LS"}]}
    document = {"metadata": {"name": "n", "uid": "s"}, "spec": spec}
    states.cluster.store(NodeSLO).put(decode(NodeSLO, document))
    slo = states.informer.node_slo()
    assert slo is not None
    assert [each.name for each in slo.host_applications] == ["good"]


@pytest.mark.parametrize("amount", ["1.5.2", "NaN", "", "9" * 10_000])
def test_amounts_that_are_none_do_not_keep_metrics_from_being_scraped(amount: str) -> None:
    states = States()
    resource_gauges.publish(states.informer)
    for name, text in (("bad", amount), ("good", "7")):
        container = {"name": "c", "resources": {"requests": {"kubernetes.io/batch-cpu": text}}}
        status = {"containerStatuses": [{"name": "c", "containerID": "containerd://x"}]}
        document = {
            "metadata": {"name": name, "namespace": "scraped", "uid": name},
            "spec": {"nodeName": "n", "containers": [container]},
            "status": status,
        }
        states.cluster.store(Pod).put(decode(Pod, document))
    text = exposition(("koordlet_container_",)).decode()
    assert 'pod_name="good",pod_namespace="scraped"' in text
    assert 'pod_name="bad",pod_namespace="scraped"' not in text
