from typing import Any

import pytest

from koordpy.agent.interface import CgroupLayout, PodMeta
from koordpy.agent.reporting.audit.subjects import Subjects
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.api.slo.node_slo import NodeSLOSpec

LAYOUT = CgroupLayout(systemd=False)
POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u"},
    "status": {"containerStatuses": [{"name": "main", "containerID": "containerd://m"}, {"name": "new"}]},
}


class OneNode:
    def pods(self) -> list[PodMeta]:
        pod = decode(Pod, POD)
        return [PodMeta(pod, LAYOUT.pod(pod))]

    def node_slo(self) -> NodeSLOSpec:
        return NodeSLOSpec(host_applications=[HostApplicationSpec(name="nginx", qos="LS")])


@pytest.mark.parametrize(
    ("directory", "about"),
    [
        ("", {"type": "node"}),
        ("kubepods", {"type": "group", "name": "Guaranteed"}),
        ("kubepods/besteffort", {"type": "group", "name": "BestEffort"}),
        ("kubepods/besteffort/podu", {"type": "pod", "namespace": "d", "name": "p"}),
        (
            "kubepods/besteffort/podu/m",
            {"type": "pod", "namespace": "d", "name": "p", "container": "main"},
        ),
        ("kubepods/besteffort/podu/sandbox", {"type": "pod", "namespace": "d", "name": "p"}),
        ("kubepods/besteffort/podu2", {"type": "unknown"}),
        ("host-latency-sensitive/nginx", {"type": "group", "name": "nginx"}),
    ],
)
def test_directories_are_of_pods_containers_groups_or_the_node(directory, about):
    states: Any = OneNode()
    assert Subjects(states, LAYOUT).of(directory) == about
