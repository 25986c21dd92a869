"""What was decided about the reservations of a node, for the reasons of a failed attempt."""

from dataclasses import dataclass, field

from koordpy.api.reservation_affinity import text_of, untolerated
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .matching import Decision
from .requirements import PodRequirements


@dataclass(slots=True)
class Diagnosis:
    """How many reservations of a node each decision was made about."""

    counts: dict[Decision, int] = field(default_factory=dict)
    taints: dict[str, int] = field(default_factory=dict)
    """Reservations by the taint that kept the pod out."""

    def count(self, decision: Decision, requirements: PodRequirements, info: ReservationInfo) -> None:
        """Count a decision."""
        self.counts[decision] = self.counts.get(decision, 0) + 1
        if decision is Decision.TAINT:
            taint = untolerated(requirements.affinity, info.taints)
            assert taint is not None
            text = text_of(taint)
            self.taints[text] = self.taints.get(text, 0) + 1

    def count_error(self) -> None:
        """Count a pod that cannot be read."""
        self.counts[Decision.ERROR] = self.of(Decision.ERROR) + 1

    def of(self, decision: Decision) -> int:
        """Return about how many reservations a decision was made."""
        return self.counts.get(decision, 0)

    @property
    def owned(self) -> int:
        """How many reservations have the pod among their owners."""
        return sum(
            number
            for decision, number in self.counts.items()
            if decision not in (Decision.IGNORED, Decision.OWNER_UNMATCHED)
        )

    @property
    def otherwise_fit(self) -> int:
        """How many of them were refused for no reason of their own."""
        return sum(map(self.of, (Decision.NAME_MATCHED, Decision.MATCHED, Decision.ERROR)))
