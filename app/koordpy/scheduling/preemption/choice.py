"""The node on which preemption costs least.

Source: Kubernetes, `pickOneNodeForPreemption` in `pkg/scheduler/framework/preemption`.
"""

from collections.abc import Mapping
from datetime import datetime

from koordpy.scheduling.interface import Victims

from .importance import priority_of, start_of

_LIFT = 1 << 31
"""Added to every priority, so that each further victim adds cost even if priorities are negative."""


def loss(victims: Victims, now: datetime) -> tuple[int, int, int, int, float]:
    """Return the sort key of a candidate, smaller is better; its first victim is the most important one.

    Violated budgets, the highest priority, the sum of all priorities, the number of victims, and how early
    the first of the victims of the highest priority was started.
    """
    priorities = [priority_of(pod) for pod in victims.pods]
    highest = max(priorities)
    first = min(start_of(pod, now) for pod in victims.pods if priority_of(pod) == highest)
    total = sum(priorities) + _LIFT * len(priorities)
    return victims.pdb_violations, priorities[0], total, len(priorities), -first.timestamp()


def least_loss(candidates: Mapping[str, Victims], now: datetime) -> str:
    """Return the name of the best node, the first of equal ones; empty if there is none."""
    if not candidates:
        return ""
    return min(candidates, key=lambda name: loss(candidates[name], now))
