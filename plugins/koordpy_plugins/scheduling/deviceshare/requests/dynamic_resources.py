"""What of a pod's devices is left to kube-scheduler's plugin DynamicResources, by rule.

Resource claims are kube-scheduler's, and so are extended resources that a DeviceClass backs: two allocators
of one device would each believe that it is free. The rule holds for each name of a resource and for the whole
cluster: as long as a DeviceClass backs `nvidia.com/gpu`, a pod's `nvidia.com/gpu` is not allocated here on
any node, while its `koordinator.sh/rdma` is. Where a node's device plugin still offers the resource,
kube-scheduler counts it there and kubelet chooses the devices, as for a profile without DeviceShare.
"""

from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.api.device_class import left_to_dynamic_resources
from koordpy.api.resource_list import Quantities


def left_to_kube_scheduler(pod: Pod, device_classes: Mapping[str, str]) -> str | None:
    """Return which devices of a pod kube-scheduler allocates, as a sentence; None if none.

    `device_classes` is `koordpy.cluster.device_classes.DeviceClasses.class_of`. Raises QuantityError.
    """
    return left_to_dynamic_resources(pod, device_classes) or None


def without_left(requests: Quantities, device_classes: Mapping[str, str]) -> Quantities:
    """Return the requests that no DeviceClass backs: those that DeviceShare allocates."""
    return {name: amount for name, amount in requests.items() if name not in device_classes}
