"""Which updates of a node can let a pod fit that did not fit before.

Source: Kubernetes, `pkg/scheduler/framework/events.go` (`NodeSchedulingPropertiesChange`).
"""

from koordpy.api.core import Node


def affects_scheduling(old: Node, new: Node) -> bool:
    """Return whether spec, allocatable resources, labels or annotations of a node have changed."""
    return (
        old.spec != new.spec
        or old.status.allocatable != new.status.allocatable
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
    )
