"""What a pod requests, and what its annotations say about reservations."""

from collections.abc import Mapping
from dataclasses import dataclass

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.quantity import Quantity
from koordpy.api.reservation_affinity import ReservationAffinity, affinity_of
from koordpy.api.resources import Vector, counted, pod_request_vector, pod_requests, surely_same
from koordpy.lib.last_answer import LastAnswer
from koordpy.scheduling.interface.reservation_info import ReservationInfo


@dataclass(frozen=True, slots=True)
class PodRequirements:
    """What a pod requires, read once an attempt."""

    pod: Pod
    vector: Vector
    """The requests of what nodes count, in milli-CPU and base units."""
    affinity: ReservationAffinity | None = None
    exact: tuple[str, ...] = ()
    """Resources of which a reservation must hold exactly what is requested."""
    ignores_reservations: bool = False

    @classmethod
    def of(cls, pod: Pod) -> "PodRequirements":
        """Read a pod. Raises DecodeError, QuantityError."""
        return cls(
            pod,
            counted(pod_request_vector(pod)),
            affinity_of(pod.metadata.annotations),
            annotations.exact_match(pod.metadata.annotations),
            annotations.is_ignored_by(pod),
        )

    @property
    def requests(self) -> Mapping[str, Quantity]:
        """The exact requests, which are compared with those of reservations; most pods have none."""
        return _REQUESTS.of(self.pod)

    @property
    def name(self) -> str:
        """The one reservation that is required by name, empty if none is."""
        return self.affinity.name if self.affinity is not None else ""

    def fits_exactly(self, info: ReservationInfo) -> bool:
        """Return whether a reservation holds just what is requested of the resources in `exact`."""
        return annotations.matches_exactly(self.exact, self.requests, info.allocatable)


_REQUESTS = LastAnswer(pod_requests, surely_same)  # an attempt reads them again and again
