"""PodDisruptionBudgets in preemption: a preference, not a constraint.

Source: Kubernetes, `filterPodsWithPDBViolation` in `framework/plugins/defaultpreemption`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from koordpy.api import label_selector
from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.label_selector import Selector, SelectorError


@dataclass(frozen=True, slots=True)
class _Budget:
    selects: Selector
    allowed: int
    disrupted: Mapping[str, str]
    """The pods, by name, whose disruption the API server has already counted."""


class Budgets:
    """The budgets of all namespaces that select anything."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[_Budget]] = defaultdict(list)
        for budget in budgets:
            try:
                selects = label_selector.of(budget.spec.selector)
            except SelectorError:
                continue
            if selects.is_empty or budget.spec.selector is None:
                continue
            status = budget.status
            self._by_namespace[budget.metadata.namespace].append(
                _Budget(selects, status.disruptions_allowed, status.disrupted_pods)
            )

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Split pods into those whose disruption would violate a budget, and the others; both in order.

        The pods are disrupted one after the other, each reducing what is still allowed. A pod without labels
        matches no budget.
        """
        if not self._by_namespace:
            return [], list(pods)
        left: dict[int, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            violated = False
            meta = pod.metadata
            if meta.labels:
                for budget in self._by_namespace.get(meta.namespace, ()):
                    if meta.name in budget.disrupted or not budget.selects.matches(meta.labels):
                        continue
                    left[id(budget)] = remaining = left.get(id(budget), budget.allowed) - 1
                    violated = violated or remaining < 0
            (violating if violated else others).append(pod)
        return violating, others
