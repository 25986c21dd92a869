"""Resource names: which of them a node counts, and their kinds.

Source of the rules: Kubernetes, `pkg/apis/core/v1/helper` and `pkg/scheduler/util` (`IsScalarResourceName`).
"""

from typing import Final

from koordpy.lib.bounded_cache import cached, text_size

from . import labels

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

_PLAIN: Final = frozenset((CPU, MEMORY, EPHEMERAL_STORAGE))


def is_hugepages(name: str) -> bool:
    """Return whether a name is huge pages of some size."""
    return name.startswith("hugepages-")


def is_native(name: str) -> bool:
    """Return whether a name belongs to Kubernetes: no domain, or one that contains `kubernetes.io/`."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a name is an extended resource: valid, of another domain, and not a quota name."""
    if is_native(name) or name.startswith("requests."):
        return False
    return labels.key_error(f"requests.{name}") is None


def is_scalar(name: str) -> bool:
    """Return whether the scheduler counts a name besides cpu, memory and ephemeral storage."""
    return (
        is_extended(name)
        or is_hugepages(name)
        or "kubernetes.io/" in name
        or name.startswith("attachable-volumes-")
    )


@cached("resource_names", 1 << 20, text_size)
def is_counted(name: str) -> bool:
    """Return whether a node's accounting has the name: cpu, memory, ephemeral storage, pods or a scalar."""
    return name in _PLAIN or name == PODS or is_scalar(name)


def is_pod_level(name: str) -> bool:
    """Return whether a name is allowed in pod-level requests: cpu, memory and huge pages."""
    return name in (CPU, MEMORY) or is_hugepages(name)
