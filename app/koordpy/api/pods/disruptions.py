"""Which pods the eviction API would evict, one after the other, by their PodDisruptionBudgets.

Source: Kubernetes, `pkg/registry/core/pod/storage/eviction.go`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from koordpy.api import label_selector
from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.lib.counting import are, counted

_UNBOUND: Final = ("Succeeded", "Failed", "Pending")
"""Phases of pods that are evicted whatever their budgets say."""


class Disruptions:
    """The budgets of a cluster, and what evictions have left of them."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: dict[str, list[tuple[PodDisruptionBudget, label_selector.Selector]]] = {}
        self._left: dict[str, int] = {}
        for budget in budgets:
            if budget.spec.selector is None:
                continue
            try:
                selector = label_selector.of(budget.spec.selector)
            except label_selector.SelectorError:
                continue
            self._budgets.setdefault(budget.metadata.namespace, []).append((budget, selector))
            self._left[budget.metadata.key] = budget.status.disruptions_allowed

    def budgets_of(self, pod: Pod) -> Sequence[PodDisruptionBudget]:
        """Return the budgets that select a pod."""
        own = self._budgets.get(pod.metadata.namespace, ())
        return [budget for budget, selector in own if selector.matches(pod.metadata.labels)]

    def refusal(self, pod: Pod) -> str | None:
        """Return why the eviction of one more pod would be refused; None if it would not, and count it."""
        if pod.status.phase in _UNBOUND or pod.metadata.deletion_timestamp is not None:
            return None
        budgets = self.budgets_of(pod)
        if not budgets:
            return None
        if len(budgets) > 1:
            names = ", ".join(budget.metadata.name for budget in budgets)
            return f"more than one PodDisruptionBudget selects it, which evictions do not support: {names}"
        [budget] = budgets
        key, status = budget.metadata.key, budget.status
        if not _is_ready(pod) and (
            budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
            or status.current_healthy >= status.desired_healthy > 0
        ):
            return None
        if self._left[key] <= 0:
            return (
                f"PodDisruptionBudget {budget.metadata.name} allows "
                f"{counted(status.disruptions_allowed, 'disruption')} now, and needs "
                f"{counted(status.desired_healthy, 'healthy pod')} "
                f"({status.current_healthy} {are(status.current_healthy)})"
            )
        self._left[key] -= 1
        return None


def _is_ready(pod: Pod) -> bool:
    return any((item.type, item.status) == ("Ready", "True") for item in pod.status.conditions)
