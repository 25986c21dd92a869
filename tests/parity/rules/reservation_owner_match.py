"""One pod and one reservation: the owners, the affinity, the exact match, and the verdict."""

from typing import Any

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_affinity import ReservationAffinity, affinity_of, text_of, untolerated
from koordpy.api.reservation_owners import OwnersError, owner_matchers
from koordpy.api.resources import pod_requests
from koordpy.api.scheme import DecodeError, decode
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy_plugins.scheduling.reservation.attempt.matching import decide
from koordpy_plugins.scheduling.reservation.attempt.requirements import PodRequirements


def run(case: dict[str, Any], tag: str | None) -> object:
    pod, node = decode(Pod, case["pod"]), decode(Node, case["node"])
    reservation = decode(Reservation, case["reservation"])
    info = ReservationInfo(reservation)
    result: dict[str, Any] = {
        "parseError": bool(info.parse_error),
        "unschedulable": info.is_unschedulable,
        "resourceNames": list(info.resource_names),
    }
    try:
        result["ownersMatch"] = owner_matchers(reservation.spec.owners).matches(pod)
        result["ownersError"] = False
    except OwnersError:
        result |= {"ownersMatch": False, "ownersError": True}
    omit = case["omitNodeLabels"]
    affinity: ReservationAffinity | None = None
    try:
        affinity = affinity_of(pod.metadata.annotations)
    except DecodeError:
        result["affinity"] = {"state": "error"}
    else:
        result["affinity"] = {"state": "none"} if affinity is None else _written(affinity)
        result["affinityMatch"] = info.accepted_by(affinity, node, omit_node_labels=omit)
    taint = untolerated(affinity, info.taints)
    if taint is not None:
        result["untolerated"] = text_of(taint)
    try:
        exact = annotations.exact_match(pod.metadata.annotations)
        matches = annotations.matches_exactly(exact, pod_requests(pod), info.allocatable)
        result["exact"] = "true" if matches else "false"
        result["decision"] = str(decide(PodRequirements.of(pod), info, node, omit_node_labels=omit))
    except DecodeError:
        result.setdefault("exact", "error")
        result["decision"] = "error"
    return result


def _written(affinity: ReservationAffinity) -> dict[str, Any]:
    return {
        "state": "set",
        "name": affinity.name,
        "tolerateUnschedulable": affinity.tolerates_unschedulable,
    }
