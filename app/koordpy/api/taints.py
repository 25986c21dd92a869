"""Taints and tolerations: which pods a node repels.

Source of the rules: Kubernetes, `k8s.io/api/core/v1` (`Toleration.ToleratesTaint`) and
`k8s.io/component-helpers/scheduling/corev1`.
"""

import re
from collections.abc import Iterable, Sequence

from koordpy.lib import int64

from .core import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Return whether a toleration covers a taint.

    An empty effect covers all effects, an empty key all keys; no operator means Equal. Lt and Gt compare the
    taint's value with the toleration's as plain 64-bit integers; they cover nothing unless
    `comparison_operators` (the gate TaintTolerationComparisonOperators, off by default) is set.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            bound, number = _integer(toleration.value), _integer(taint.value)
            if bound is None or number is None:
                return False
            return number < bound if toleration.operator == "Lt" else number > bound
        case _:
            return False


def _integer(text: str) -> int | None:
    """Read a 64-bit integer without `+`, leading zeros or `-0`."""
    return int64.parse(text) if _PLAIN_INTEGER.fullmatch(text) else None


def tolerated(tolerations: Iterable[Toleration], taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Return whether one of the tolerations covers a taint."""
    return any(tolerates(item, taint, comparison_operators=comparison_operators) for item in tolerations)


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: tuple[str, ...] = (NO_SCHEDULE, NO_EXECUTE),
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """Return the first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerated(
            tolerations, taint, comparison_operators=comparison_operators
        ):
            return taint
    return None
