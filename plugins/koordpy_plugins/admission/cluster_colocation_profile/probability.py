"""The share of matching pods to which a profile is applied.

Source: Koordinator, `pkg/webhook/pod/mutating/cluster_colocation_profile.go` (`shouldSkipProfile`).
"""

from koordpy.admission.handler import RandomSource
from koordpy.api import int_or_string


def percentage(probability: int | str | None) -> int:
    """Return a profile's `probability` as a percentage, 100 if it is not set.

    Raises ValueError for a string that is not a percentage.
    """
    if probability is None:
        return 100
    if isinstance(probability, int):
        return probability
    return int_or_string.percentage(probability)


def is_skipped(percent: int, rng: RandomSource) -> bool:
    """Draw for one pod. 0 never applies and 100 always, without a random number.

    As in Koordinator, a number from 0 to 99 has to exceed the percentage to skip, so N applies to N + 1 of
    100.
    """
    if percent == 0:
        return True
    return percent != 100 and rng.randint(0, 99) > percent
