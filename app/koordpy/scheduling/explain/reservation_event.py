"""Writes an event on pods that require reservations: how many fit, and why the others do not.

kube-scheduler's own event counts nodes. Source: Koordinator,
`pkg/scheduler/frameworkext/eventhandlers/reservation_handler.go`.
"""

import re
from collections.abc import Mapping
from typing import Final

from koordpy.api.extension import ANNOTATION_RESERVATION_AFFINITY
from koordpy.cluster.events import WARNING, Recorder, truncate
from koordpy.scheduling.profiles.profiles import Profiles

from .decisions import Decision, Step

REASON: Final = "FailedScheduling-Reservation"
_NODES = re.compile(r"0/[0-9]+ nodes are available: ")
_TOTAL = re.compile(r"([0-9]+) Reservation\(s\) matched owner total")
_OF_NODES = re.compile(r"([0-9]+ Reservation\(s\)) for node reason that (.*)")
_NAMED = re.compile(r"[0-9]+ Reservation\(s\) exactly matches the requested reservation name")
_DETAIL = re.compile(r"[0-9]+ Reservation\(s\) .*")


class ReservationEvents:
    """Observes attempts, and reports those that fail for lack of a reservation.

    `events` are the recorders of the profiles whose plugins evaluate reservations.
    """

    def __init__(self, events: Mapping[str, Recorder], profiles: Profiles) -> None:
        self._events, self._profiles = events, profiles

    def __call__(self, decision: Decision, step: Step) -> None:
        """Process a step of an attempt."""
        if (
            step != "unschedulable"
            or ANNOTATION_RESERVATION_AFFINITY not in decision.pod.metadata.annotations
        ):
            return
        recorder, framework = self._events.get(decision.profile), self._profiles.of(decision.profile)
        state, outcome = decision.state, decision.outcome
        if recorder is None or framework is None or state is None or outcome is None:
            return
        reasons = framework.explain_failure(state, decision.pod, outcome)
        note = reservation_note(outcome.message(", ".join(reasons)))
        if note:
            recorder.event(decision.pod, WARNING, REASON, truncate(note, " ..."), action="Scheduling")


def reservation_note(message: str) -> str:
    """Convert a message about nodes into one about reservations; empty if it does not mention any.

    Anything after a comma in a reason is lost.
    """
    begin = _NODES.match(message)
    if begin is None:
        return ""
    total = ""
    named: list[str] = []
    details: list[str] = []
    of_nodes: list[str] = []
    for part in message[begin.end() :].replace(". ", ", ").split(","):
        item = part.strip(". ")
        if found := _TOTAL.fullmatch(item):
            total = found[1]
        elif found := _OF_NODES.fullmatch(item):
            of_nodes.append(f"{found[1]} {found[2]}")
        elif _NAMED.fullmatch(item):
            named.append(item)
        elif _DETAIL.fullmatch(item):
            details.append(item)
    if not total:
        return ""
    return f"0/{total} reservations are available: {', '.join((*named, *details, *of_nodes))}."
