"""Prefer the pod whose size fits the excess of its node: one eviction instead of several.

Koordinator orders by importance down to the deletion cost before it considers sizes. With the argument
`preferSizeFit` the size comes right after the Koordinator priority class.
"""

from collections.abc import Mapping

from koordpy.descheduling.toolkit.pod_sorter import SortKey


def size_fit(used: Mapping[str, int] | None, excess: Mapping[str, int]) -> tuple[bool, float]:
    """Return a key by which pods that fit the excess of a node come first, and of them the smallest.

    `excess` is the usage above the thresholds, by resource and above 0, in the units of `used`. A pod fits if
    its usage covers the whole excess; its size is the usage as a multiple of the excess, of the resource in
    which it exceeds that most. Pods that do not fit, or are not measured, are equal.
    """
    if used is None or not excess:
        return True, 0.0
    multiples = [used.get(name, 0) / amount for name, amount in excess.items()]
    return (False, max(multiples)) if min(multiples) >= 1 else (True, 0.0)


def preferring_fit(key: SortKey, fit: tuple[bool, float]) -> tuple[float, ...]:
    """Return an eviction order key in which the size comes after the Koordinator priority class."""
    priority_class, *rest = key
    return (priority_class, *fit, *rest)
