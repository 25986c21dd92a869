"""The arguments of InterPodAffinity."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class InterPodAffinityArgs(PluginArgs):
    """How much the wishes of pods that run already count for the pod to be placed."""

    hard_pod_affinity_weight: int = 1
    """What a required affinity term of a running pod adds to the score where it matches."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Do not rank nodes for pods that have no preferred terms of their own."""

    def problems(self) -> Iterable[FieldError]:
        """Check as kube-scheduler does."""
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]")
