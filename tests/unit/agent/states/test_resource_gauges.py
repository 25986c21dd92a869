from prometheus_client import REGISTRY

from koordpy.agent.interface import CgroupLayout
from koordpy.agent.states import resource_gauges
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.testing.cluster import cluster


def test_batch_resources_of_the_node_and_its_containers() -> None:
    node = {"metadata": {"name": "n-gauges"}, "status": {"allocatable": {"kubernetes.io/batch-cpu": "1500"}}}
    resources = {
        "requests": {"kubernetes.io/batch-cpu": "500", "cpu": "1"},
        "limits": {"kubernetes.io/batch-memory": "1Gi"},
    }
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {
            "nodeName": "n-gauges",
            "containers": [{"name": "c", "resources": resources}, {"name": "new", "resources": resources}],
        },
        "status": {"containerStatuses": [{"name": "c", "containerID": "containerd://one"}]},
    }
    states = StatesInformer(
        cluster(decode(Node, node), decode(Pod, pod)), "n-gauges", CgroupLayout(systemd=True)
    )
    resource_gauges.publish(states)

    def value(name: str, resource: str, unit: str, **labels: str) -> float | None:
        found = {"node": "n-gauges", "resource": f"kubernetes.io/{resource}", "unit": unit, **labels}
        return REGISTRY.get_sample_value(f"koordlet_{name}", found)

    assert value("node_resource_allocatable", "batch-cpu", "integer") == 1500
    assert value("node_resource_allocatable", "mid-memory", "byte") == 0
    of = {"pod_uid": "u", "pod_name": "p", "pod_namespace": "d"}
    of |= {"container_id": "containerd://one", "container_name": "c"}
    assert value("container_resource_requests", "batch-cpu", "integer", **of) == 500
    assert value("container_resource_limits", "batch-memory", "byte", **of) == 1 << 30
