"""OpenKruise's workloads that own pods themselves. Only their size and selector are read."""

from .core import ReplicaSet
from .scheme import Resource, register


class CloneSet(ReplicaSet):
    """A CloneSet."""


class AdvancedStatefulSet(ReplicaSet):
    """OpenKruise's StatefulSet."""


register(
    Resource("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet", True, CloneSet),
    Resource("apps.kruise.io", "v1beta1", "statefulsets", "StatefulSet", True, AdvancedStatefulSet),
)
