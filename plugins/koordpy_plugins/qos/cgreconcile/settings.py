"""Which memory settings hold for a pod: those of its class on this node, its own, or a third party's.

Source: Koordinator, `pkg/koordlet/qosmanager/plugins/cgreconcile` (`getMergedPodResourceQoS`).
"""

import logging
from typing import Final

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.decoding import DecodeError
from koordpy.api.qos import KubeQoS, QoSClass
from koordpy.api.slo import pod_memory_qos, resource_qos
from koordpy.api.slo.pod_memory_qos import PodMemoryQOSConfig
from koordpy.api.slo.resource_qos import MemoryQOS, ResourceQOS, ResourceQOSStrategy

log = logging.getLogger(__name__)

_CLASS_OF_KUBE_QOS: Final = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}


def of_class(strategy: ResourceQOSStrategy, qos_class: QoSClass) -> ResourceQOS | None:
    """Return the settings of a QoS class; LSE has those of LSR."""
    return {
        QoSClass.LSE: strategy.lsr_class,
        QoSClass.LSR: strategy.lsr_class,
        QoSClass.LS: strategy.ls_class,
        QoSClass.BE: strategy.be_class,
        QoSClass.SYSTEM: strategy.system_class,
    }.get(qos_class)


def of_kube_qos(strategy: ResourceQOSStrategy, kube_qos: str) -> MemoryQOS | None:
    """Return the memory settings for the directory of a Kubernetes QoS class; None if there are none."""
    settings = of_class(strategy, _CLASS_OF_KUBE_QOS[kube_qos])
    if settings is None:
        return None
    return settings.memory_qos or MemoryQOS()


def of_annotation(pod: Pod) -> PodMemoryQOSConfig | None:
    """Return the settings in a pod's annotation; a broken annotation is logged and counts as absent."""
    try:
        return pod_memory_qos.of_pod(pod)
    except DecodeError as error:
        log.warning("pod %s: %s", pod.metadata.key, error)
        return None


def of_pod(pod: Pod, strategy: ResourceQOSStrategy, own: PodMemoryQOSConfig | None) -> MemoryQOS | None:
    """Return the settings of a pod, given its own; None if its class has no settings at all."""
    qos_class = qos.qos_class(pod)
    class_settings = of_class(strategy, qos_class)
    if class_settings is None:
        return None
    settings: MemoryQOS = class_settings.memory_qos or MemoryQOS()
    if own is None:
        return settings
    if own.policy == pod_memory_qos.NONE:
        return resource_qos.NO_MEMORY_QOS
    if own.policy == pod_memory_qos.AUTO:
        default = of_class(resource_qos.DEFAULT, qos_class)
        settings = (default and default.memory_qos) or MemoryQOS()
    return own.over(settings)
