"""Policies for single pods that plugins supply where a pod itself has none.

A plugin registers a provider in its `setup`; the strategy that owns a kind of policy asks for it when a pod
carries no annotation. Source: Koordinator, `pkg/koordlet/qosmanager/framework/pod_qos_control.go` (grey
control plugins).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from koordpy.api.core import Pod
from koordpy.api.slo.cpu_burst import CPUBurstConfig
from koordpy.api.slo.pod_memory_qos import PodMemoryQOSConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

Provider = Callable[[Pod], T | None]
"""Returns the policy of a pod; None leaves the pod to others."""


@dataclass(frozen=True)
class PolicyType(Generic[T]):
    """A kind of policy; its providers return values of type T."""

    name: str


CPU_BURST: Final[PolicyType[CPUBurstConfig]] = PolicyType("CPUBurst")
"""As in the annotation `koordinator.sh/cpuBurst`."""

MEMORY_QOS: Final[PolicyType[PodMemoryQOSConfig]] = PolicyType("MemoryQOS")
"""As in the annotation `koordinator.sh/memoryQOS`."""


class PodPolicies:
    """The providers of all plugins."""

    def __init__(self) -> None:
        self._providers: dict[str, dict[str, Provider[Any]]] = {}

    def register(self, type_: PolicyType[T], name: str, provider: Provider[T]) -> None:
        """Ask `provider` for policies from now on. Raises ValueError for a name that the type already has."""
        providers = self._providers.setdefault(type_.name, {})
        if name in providers:
            raise ValueError(f"a provider of {type_.name} policies named {name} already exists")
        providers[name] = provider

    def has(self, type_: PolicyType[T]) -> bool:
        """Return whether any plugin supplies policies of a type."""
        return bool(self._providers.get(type_.name))

    def policy(self, type_: PolicyType[T], pod: Pod) -> T | None:
        """Return the policy of a pod: of the last provider, by name, that has one.

        Every provider is asked. One that raises is logged and skipped.
        """
        found: T | None = None
        for name, provider in sorted(self._providers.get(type_.name, {}).items()):
            try:
                supplied = provider(pod)
            except Exception:
                log.exception("provider %s of %s policies failed for %s", name, type_.name, pod.metadata.key)
                continue
            found = found if supplied is None else supplied
        return found
