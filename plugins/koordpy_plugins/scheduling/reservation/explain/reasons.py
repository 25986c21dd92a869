"""The reasons that concern reservations of an unschedulable pod.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (`makePostFilterReasons`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Status

from ..attempt.diagnosis import Diagnosis
from ..attempt.matching import Decision
from ..filter.node import PREFIX

_COUNTED = (
    (Decision.NAME_MATCHED, "exactly matches the requested reservation name"),
    (Decision.NAME_UNMATCHED, "didn't match the requested reservation name"),
    (Decision.AFFINITY_UNMATCHED, "didn't match affinity rules"),
    (Decision.UNSCHEDULABLE, "is unschedulable"),
    (Decision.NOT_EXACT, "is not exact matched"),
)


def reasons_for(
    diagnoses: Iterable[tuple[str, Diagnosis]], outcome: FilterOutcome, *, has_affinity: bool
) -> list[str]:
    """Return the reasons; none for a pod that has nothing to do with reservations.

    `diagnoses` are by node name, `has_affinity` is whether the pod must use a reservation.
    """
    status_of = _status_lookup(outcome)
    totals: Counter[Decision] = Counter()
    taints: Counter[str] = Counter()
    by_node: Counter[str] = Counter()
    owned = 0
    for node_name, diagnosis in diagnoses:
        totals.update(diagnosis.counts)
        taints.update(diagnosis.taints)
        owned += diagnosis.owned
        by_node.update(_node_reasons(diagnosis, status_of(node_name).reasons))
    if owned <= 0 and not has_affinity:
        return []
    reasons = [f"{totals[decision]} {PREFIX}{text}" for decision, text in _COUNTED if totals[decision]]
    reasons.extend(f"{taints[taint]} {PREFIX}had untolerated taint {taint}" for taint in sorted(taints))
    reasons.extend(f"{by_node[reason]} {PREFIX}for node reason that {reason}" for reason in sorted(by_node))
    reasons.append(f"{owned} {PREFIX}matched owner total")
    return reasons


def _node_reasons(diagnosis: Diagnosis, reasons: Sequence[str]) -> Counter[str]:
    """Count each of a node's own reasons for every reservation there that no reason of its own excludes."""
    left = diagnosis.otherwise_fit
    if left <= 0:
        return Counter()
    of_node = Counter(reason for reason in reasons if not reason.startswith(PREFIX))
    left -= len(reasons) - of_node.total()
    if left <= 0:
        return Counter()
    return Counter({reason: left * count for reason, count in of_node.items()})


def _status_lookup(outcome: FilterOutcome) -> Callable[[str], Status]:
    """Return a function from a node's name to the status with which it was refused."""
    if not outcome.prefilter.is_success:
        return lambda _: outcome.prefilter
    positions = {name: index for index, name in enumerate(outcome.nodes.names)}

    def status_of(node_name: str) -> Status:
        index = positions.get(node_name)
        return outcome.absent_status if index is None else outcome.status(index)

    return status_of
