"""Comparisons of resource lists for quotas: a missing name counts as 0.

Source: Kubernetes, `k8s.io/apiserver/pkg/quota/v1`.
"""

from collections.abc import Mapping

from koordpy.api.quantity import UNSET, Quantity


def fits(amounts: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> bool:
    """Return whether no amount exceeds its limit; a name without a limit has the limit 0."""
    return all(amount <= limits.get(name, UNSET) for name, amount in amounts.items())


def negative(amounts: Mapping[str, Quantity]) -> list[str]:
    """Return the names of amounts below 0, sorted."""
    return sorted(name for name, amount in amounts.items() if amount.sign < 0)
