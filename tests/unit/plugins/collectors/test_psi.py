from prometheus_client import REGISTRY

from koordpy_plugins.collectors.psi.plugin import PSI
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, NodeFiles, pod

POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"
CONTAINER = f"{POD}/cri-containerd-c1.scope"


def pressure(node, directory, *, full=True):
    some = "some avg10={} avg60=1.00 avg300=0.10 total=5\n"
    rest = "full avg10={} avg60=1.00 avg300=0.10 total=5\n"
    texts = {
        f"{name}__pressure": some.format(f"{index}.50")
        + (rest.format(f"{index}.25") if full or name != "cpu" else "")
        for index, name in enumerate(("cpu", "memory", "io"), 1)
    }
    node.cgroup(directory, **texts)


def of(**properties):
    return {"pod_uid": "u", "psi_precision": "10", **properties}


def test_pressure_of_pods_and_containers(tmp_path):
    node = NodeFiles(tmp_path, PSI, pod("u", "c1"))
    pressure(node, "kubepods.slice")
    assert node.collector.idle_reason() is None
    pressure(node, POD)
    pressure(node, CONTAINER, full=False)
    node.collect()
    assert node.values("pod_psi", **of(psi_resource="mem", psi_degree="some")) == 2.5
    assert node.values("pod_psi", **of(psi_resource="io", psi_degree="full")) == 3.25
    container = {"container_id": "containerd://c1"}
    assert node.values("container_psi", **of(psi_resource="cpu", psi_degree="full", **container)) == 0
    assert node.values("container_psi_cpu_full_supported", pod_uid="u", **container) == 0
    assert node.values("pod_psi_cpu_full_supported", pod_uid="u") == 1
    labels = {"node": "n1", "pod_uid": "u", "pod_name": "pod-u", "pod_namespace": "d"}
    labels |= {"psi_resource_type": "cpu", "psi_precision": "avg10", "psi_degree": "some"}
    labels |= {"cpu_full_supported": "true"}
    assert REGISTRY.get_sample_value("koordlet_pod_psi", labels) == 1.5


def test_a_kernel_without_pressure_is_named(tmp_path):
    node = NodeFiles(tmp_path, PSI)
    assert node.collector.idle_reason().startswith("the kernel has no pressure stall information of cgroups")
