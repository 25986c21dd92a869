"""The arguments of InterPodAffinity."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class InterPodAffinityArgs(PluginArgs):
    """How much the terms of running pods count for the pod to be scheduled."""

    hard_pod_affinity_weight: int = 1
    """The weight of a matching required affinity term of a running pod in the score."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Do not score nodes for pods that have no preferred terms of their own."""

    def problems(self) -> Iterable[FieldError]:
        """Validate as kube-scheduler does."""
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]")
