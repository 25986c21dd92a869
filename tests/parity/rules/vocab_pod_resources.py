"""What pods ask for and nodes have, QoS and priority classes: `koordpy.api.resources`, `koordpy.api.qos`."""

from collections import Counter
from typing import Any

from koordpy.api import batch_resources, extension, qos, resources
from koordpy.api.core import Node, Pod
from koordpy.api.quantity import Quantity
from koordpy.api.resources import Vector
from koordpy.api.scheme import decode

PLAIN = {
    "cpu": "MilliCPU",
    "memory": "Memory",
    "ephemeral-storage": "EphemeralStorage",
    "pods": "AllowedPodNumber",
}


def texts(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def resource(vector: Vector) -> dict[str, Any]:
    plain = {field: vector.get(name, 0) for name, field in PLAIN.items()}
    return plain | {"ScalarResources": {name: n for name, n in vector.items() if name not in PLAIN}}


def pair(amounts: tuple[int, int]) -> dict[str, int]:
    return {"MilliCPU": amounts[0], "Memory": amounts[1]}


def sub_priority(pod: Pod) -> int | None:
    try:
        return qos.sub_priority(pod)
    except ValueError:
        return None


def pod_answer(pod: Pod) -> dict[str, Any]:
    priority = qos.priority_class(pod)
    return {
        "requests": texts(resources.pod_requests(pod)),
        "requestsNoOverhead": texts(resources.pod_requests(pod, overhead=False)),
        "limits": texts(resources.pod_limits(pod)),
        "statusRequests": texts(resources.pod_status_requests(pod)),
        "statusLimits": texts(resources.pod_status_limits(pod)),
        "fit": resource(resources.pod_fit_vector(pod)),
        "info": resource(resources.counted(resources.pod_status_vector(pod))),
        "nonzero": pair(resources.pod_nonzero_request(pod)),
        "score": pair(resources.pod_score_request(pod)),
        "kubeQoSComputed": qos.computed_kube_qos(pod),
        "kubeQoS": qos.kube_qos(pod),
        "qosRaw": qos.qos_class_raw(pod),
        "qos": qos.qos_class(pod),
        "prioRaw": qos.priority_class_raw(pod),
        "prio": priority,
        "prioValue": qos.priority_value(pod),
        "subPrio": sub_priority(pod),
        "translate": {
            name: qos.translate_resource(priority, name) for name in ("cpu", "memory", "nvidia.com/gpu")
        },
        "cpuLimitMilli": batch_resources.pod_milli_cpu_limit(pod),
        "beCPURequest": batch_resources.pod_batch_request(pod, extension.BATCH_CPU),
        "beCPULimit": batch_resources.pod_batch_limit(pod, extension.BATCH_CPU),
        "beMemRequest": batch_resources.pod_batch_request(pod, extension.BATCH_MEMORY),
        "beMemLimit": batch_resources.pod_batch_limit(pod, extension.BATCH_MEMORY),
    }


def node_answer(node: Node, pods: list[Pod]) -> dict[str, Any]:
    requested: Counter[str] = Counter()
    nonzero: Counter[str] = Counter(MilliCPU=0, Memory=0)
    for pod in pods:
        requested.update(resources.pod_node_request_vector(pod))
        nonzero.update(pair(resources.pod_nonzero_request(pod)))
    return {
        "allocatable": resource(resources.node_allocatable(node)),
        "requested": resource(dict(requested)),
        "nonzero": dict(nonzero),
    }


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    if tag == "pod":
        return pod_answer(decode(Pod, case_in["pod"]))
    return node_answer(decode(Node, case_in["node"]), [decode(Pod, pod) for pod in case_in["pods"] or ()])
