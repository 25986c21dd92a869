"""Utilization of nodes by the requests of their pods, for HighNodeUtilization and LowNodeUtilization.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/nodeutilization`.
"""

from collections.abc import Mapping


def thresholds_problem(thresholds: Mapping[str, float]) -> str:
    """Return what is wrong with percentages, empty if they are valid."""
    if not thresholds:
        return "no resource threshold is configured"
    for resource in sorted(thresholds):
        if not 0 <= thresholds[resource] <= 100:
            return f"{resource} threshold not in [0, 100] range"
    return ""
