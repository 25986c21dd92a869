"""Transforms objects on their way into a store into one normal form.

Only the in-memory object is changed, never the one in the API server. An object from another source (a pod in
an extender call) must be passed through `Store.transformed`. Parts of a process that schedule or deschedule
install the transformers; its other parts see the same objects, and read an object again before they write it.

Source: Koordinator, `pkg/util/transformer`.
"""

from collections.abc import Callable

from msgspec.structs import replace

from koordpy.api import deprecated_resources, extension, node_reservation, qos, replace_resources
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage

from . import kubernetes_gangs
from .cluster import Cluster
from .kubernetes_gangs import KubernetesGangs

PRIORITY_TRANSFORMER = "PriorityTransformer"
"""A pod without a priority has that of its Koordinator priority class."""

PREEMPTION_POLICY_TRANSFORMER = "PreemptionPolicyTransformer"
"""A pod preempts others only if a label says so."""

REPLACE_RESOURCES_TRANSFORMER = "ReplaceResourcesTransformer"
"""A pod's requests are replaced by those in its annotation."""

SPECS: dict[str, FeatureSpec] = {
    PRIORITY_TRANSFORMER: FeatureSpec(False, Stage.ALPHA),
    PREEMPTION_POLICY_TRANSFORMER: FeatureSpec(False, Stage.ALPHA),
    REPLACE_RESOURCES_TRANSFORMER: FeatureSpec(False, Stage.ALPHA),
    **kubernetes_gangs.SPECS,
}

_POLICIES = ("Never", "PreemptLowerPriority")

Step = Callable[[Pod], Pod]


def install(cluster: Cluster, gates: FeatureGates) -> None:
    """Transform pods, nodes and devices; call it before anything is listed.

    `gates` are read once. Devices are transformed as soon as the type is followed. Parts of one process share
    one `KubernetesGangs`, that of the cluster.
    """
    if cluster.kubernetes_gangs is None:
        cluster.kubernetes_gangs = KubernetesGangs(gates)
    cluster.transform(Pod, pod_transformer(gates, cluster.kubernetes_gangs))
    cluster.transform(Node, transformed_node)
    cluster.transform(Device, deprecated_resources.device_with_present_names)


def pod_transformer(gates: FeatureGates, gangs: KubernetesGangs | None = None) -> Step:
    """Return the transformations of a pod, in Koordinator's order, `gangs` first."""
    steps: list[Step] = [deprecated_resources.with_present_names]
    if gangs is not None:
        steps.insert(0, gangs.transformed)
    if gates.enabled(REPLACE_RESOURCES_TRANSFORMER):
        steps.append(replace_resources.replaced)
    if gates.enabled(PRIORITY_TRANSFORMER):
        steps.append(_with_priority)
    if gates.enabled(PREEMPTION_POLICY_TRANSFORMER):
        steps.append(_with_preemption_policy)
    steps.append(_with_scheduler_name)

    def transform(pod: Pod) -> Pod:
        for step in steps:
            pod = step(pod)
        return pod

    return transform


def transformed_node(node: Node) -> Node:
    """Return a node without its reserved resources, and with current resource names.

    The order matters: a node with reserved resources has amounts under the current batch names, so that its
    deprecated ones stay (Koordinator's quirk).
    """
    return deprecated_resources.node_with_present_names(node_reservation.trimmed(node))


def _with_priority(pod: Pod) -> Pod:
    priority = qos.priority_value(pod)
    return pod if pod.spec.priority == priority else replace(pod, spec=replace(pod.spec, priority=priority))


def _with_preemption_policy(pod: Pod) -> Pod:
    label = pod.metadata.labels.get(extension.LABEL_PREEMPTION_POLICY, "")
    policy = label if label in _POLICIES else "Never"
    if pod.spec.preemption_policy == policy:
        return pod
    return replace(pod, spec=replace(pod.spec, preemption_policy=policy))


def _with_scheduler_name(pod: Pod) -> Pod:
    name = pod.metadata.labels.get(extension.LABEL_SCHEDULER_NAME)
    original = pod.spec.scheduler_name
    if name is None or name == original:
        return pod
    annotations = {**pod.metadata.annotations, extension.ANNOTATION_ORIGINAL_SCHEDULER_NAME: original}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=annotations),
        spec=replace(pod.spec, scheduler_name=name),
    )
