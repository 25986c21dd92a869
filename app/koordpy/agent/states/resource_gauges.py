"""Gauges of batch and mid resources: the node's, and those of containers; computed when they are scraped."""

from collections.abc import Iterable
from typing import Final

from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge
from koordpy.api import extension, quantity

_UNITS: Final = {
    extension.BATCH_CPU: "integer",
    extension.BATCH_MEMORY: "byte",
    extension.MID_CPU: "integer",
    extension.MID_MEMORY: "byte",
}
_CONTAINER: Final = (
    "node",
    "resource",
    "unit",
    "pod_uid",
    "pod_name",
    "pod_namespace",
    "container_id",
    "container_name",
)

ALLOCATABLE = ScrapedGauge(
    "koordlet_node_resource_allocatable",
    "Allocatable batch and mid resources of the node.",
    ("node", "resource", "unit"),
)
REQUESTS = ScrapedGauge("koordlet_container_resource_requests", "Requests of containers.", _CONTAINER)
LIMITS = ScrapedGauge("koordlet_container_resource_limits", "Limits of containers.", _CONTAINER)

Values = Iterable[tuple[tuple[str, ...], float]]


def publish(states: StatesInformer) -> None:
    """Export the gauges of a node for as long as its states exist."""
    ALLOCATABLE.publish(states, _allocatable)
    REQUESTS.publish(states, lambda known: _containers(known, "requests"))
    LIMITS.publish(states, lambda known: _containers(known, "limits"))


def _allocatable(states: StatesInformer) -> Values:
    node = states.node()
    if node is None:
        return
    for name in _UNITS:
        amount = quantity.value(node.status.allocatable.get(name, 0))
        yield (states.node_name, name, _UNITS[name]), float(amount)


def _containers(states: StatesInformer, which: str) -> Values:
    unit = "integer" if which == "requests" else "byte"  # Koordinator's labels, whatever the resource
    for meta in states.pods():
        pod = meta.pod
        ids = {status.name: status.container_id for status in pod.status.container_statuses}
        identity = (pod.metadata.uid, pod.metadata.name, pod.metadata.namespace)
        for container in pod.spec.containers:
            if container.name not in ids:
                continue
            resources = container.resources
            amounts = resources.requests if which == "requests" else resources.limits
            of_container = (*identity, ids[container.name], container.name)
            for name in _UNITS:
                if name in amounts:
                    try:
                        value = float(quantity.value(amounts[name]))
                    except quantity.QuantityError:
                        continue
                    yield (states.node_name, name, unit, *of_container), value
