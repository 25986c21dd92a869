"""The history of a pod: `/apis/v1/pods/{namespace}/{name}/history`."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query

from koordpy.api.core import Pod
from koordpy.api.meta import format_micro_time
from koordpy.api.output_model import OutputModel
from koordpy.api.reservation_annotations import allocated_name
from koordpy.scheduling.explain.cause import Cause
from koordpy.scheduling.explain.causes import Causes
from koordpy.scheduling.explain.gangs.report import GangReport
from koordpy.scheduling.explain.history import Life, StepModel, What
from koordpy.scheduling.explain.quotas.explanation import QuotaExplanation
from koordpy.scheduling.extender.extender import Extender

from .gangs import reporter
from .parameters import known_parameters
from .quotas import explainer

T = TypeVar("T")


class HistoryModel(OutputModel):
    """The history of a pod, oldest step first, and the causes of its state.

    `state` is `pending`, `bound` or `deleted`. `cycles` counts kube-scheduler's filter calls, `dropped_steps`
    those forgotten after `first_seen`. `other_uids` are other recorded pods of that name.
    `allocated_reservation` is the Reservation whose resources the pod uses, by its annotation. `gang` and
    `quota` are the pod's, None where it has none, or the plugin is not enabled.
    """

    namespace: str
    pod: str
    uid: str
    scheduler_name: str
    state: str
    node: str
    allocated_reservation: str
    created: str
    first_seen: str
    cycles: int
    dropped_steps: int
    steps: list[StepModel]
    causes: list[Cause]
    gang: GangReport | None
    quota: QuotaExplanation | None
    other_uids: list[str]


def router(extender: Extender | None) -> APIRouter:
    """Return the route; without an extender it answers 404."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])

    @routes.get("/apis/v1/pods/{namespace}/{name}/history")
    async def history(
        namespace: str, name: str, uid: Annotated[str, Query(description="One of several of that name.")] = ""
    ) -> HistoryModel:
        if extender is None:
            raise HTTPException(404, "pods are not followed: this process does not serve the extender")
        found = find(extender, namespace, name, uid)
        if found is None:
            which = f" with UID {uid}" if uid else ""
            raise HTTPException(
                404, f"pod {namespace}/{name}{which} does not exist, and has no recorded history"
            )
        return found

    return routes


def find(extender: Extender, namespace: str, name: str, uid: str = "") -> HistoryModel | None:
    """Return the history of a pod (without a UID: the latest of that name), None if nothing is known."""
    lives = extender.histories.lives(namespace, name)
    live = extender.handle.cluster.store(Pod).get(namespace, name)
    uids = list(dict.fromkeys([*([live.metadata.uid] if live else []), *(_uid(life) for life in lives)]))
    chosen = uid or next(iter(uids), "")
    life = next((life for life in lives if _uid(life) == chosen), None)
    pod = live if live is not None and live.metadata.uid == chosen else life.pod if life else None
    if pod is None:
        return None
    is_gone = live is None or live.metadata.uid != chosen
    state = "deleted" if is_gone else "bound" if pod.spec.node_name else "pending"
    gangs, quotas = reporter(extender), explainer(extender)
    causes = [] if is_gone else Causes(extender.profiles, extender.histories, gangs, quotas).of(pod, life)
    return HistoryModel(
        namespace=namespace,
        pod=name,
        uid=chosen,
        scheduler_name=pod.spec.scheduler_name or "default-scheduler",
        state=state,
        node=pod.spec.node_name or _node_of(life),
        allocated_reservation=allocated_name(pod.metadata.annotations),
        created=pod.metadata.creation_timestamp or "",
        first_seen="" if life is None else format_micro_time(life.first_seen),
        cycles=0 if life is None else life.cycles,
        dropped_steps=0 if life is None else life.dropped,
        steps=[] if life is None else life.models(),
        causes=causes,
        gang=None if is_gone else _found(gangs.of_pod, pod),
        quota=None if is_gone else _found(quotas.explain_pod, pod),
        other_uids=[other for other in uids if other != chosen],
    )


def _found(explain: Callable[[Pod], T], pod: Pod) -> T | None:
    try:
        return explain(pod)
    except LookupError:
        return None


def _uid(life: Life) -> str:
    return life.pod.metadata.uid


def _node_of(life: Life | None) -> str:
    """Return the node that a deleted pod was bound to, empty if that was not seen."""
    bound = (What.BOUND, What.BOUND_BY_OTHERS)
    return next((step.node for step in (life.steps if life else ()) if step.what in bound), "")
