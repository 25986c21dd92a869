"""ScoreReservation: how full a pod would make a reservation in this attempt."""

from koordpy.api.core import Pod
from koordpy.api.resources import pod_requests
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from ..attempt.prepared import Prepared
from ..fit import scoring


def score_reservation(prepared: Prepared | None, pod: Pod, info: ReservationInfo, node_name: str) -> int:
    """Return the score of a reservation, or of a running pod in the Reservation that is scheduled."""
    if prepared is None:
        return scoring.score(pod_requests(pod), info, {})
    freed = prepared.preemptible.within(node_name, info.uid)
    known = prepared.requirements
    requests = known.requests if known.pod.metadata.uid == pod.metadata.uid else pod_requests(pod)
    return scoring.score(requests, info, freed)
