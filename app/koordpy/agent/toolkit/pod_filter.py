"""Which pods a collector measures (koordlet's pod filters)."""

from collections.abc import Callable

from koordpy.agent.interface.states import PodMeta

PodFilter = Callable[[PodMeta], bool]
"""Returns whether a pod is measured."""


def every_pod(meta: PodMeta) -> bool:
    """Measure every pod: the default."""
    return True


def not_terminated(meta: PodMeta) -> bool:
    """Measure pods whose containers may run."""
    return meta.pod.status.phase in ("Pending", "Running")


def all_of(*filters: PodFilter) -> PodFilter:
    """Measure the pods that all filters let through."""
    return lambda meta: all(passes(meta) for passes in filters)
