"""`POST /apis/v1/whatif`: where the pods of a workload would be scheduled, and what stops the rest.

`POST /apis/v1/whatif/drain?node=NAME`: where the pods of a node would go if it was drained.

The body is a Pod, Deployment, ReplicaSet, StatefulSet, Job or another workload, as JSON or YAML. If this
process also serves the admission webhooks, the pod goes through them first, as it would when it is created.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from msgspec.structs import replace

from koordpy.admission.chain import Chain
from koordpy.admission.explain import ExplainedChange, explain
from koordpy.api.core import Pod
from koordpy.api.output_model import OutputModel
from koordpy.api.pods.creation import refusal
from koordpy.api.quantity import QuantityError
from koordpy.api.resources import pod_requests
from koordpy.api.scheme import MALFORMED, DecodeError, decode
from koordpy.api.workloads import as_created_again, name_of, pod_of, pods_at_once
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.explain.drain import Drain
from koordpy.scheduling.explain.drain import drain as drained
from koordpy.scheduling.explain.what_if import MOST_PODS, Forecast, Stop, forecast
from koordpy.scheduling.profiles.profiles import Profiles

from .object_body import read_object
from .parameters import known_parameters
from .turns import Turns

MUTATE, VALIDATE = "/mutate-pod", "/validate-pod"

Admission = Literal["auto", "true", "false"]


class AdmissionNote(OutputModel):
    """The result of the admission webhooks for the pod; `ran` is False if they were not called."""

    ran: bool
    message: str
    changes: list[ExplainedChange]


class WhatIf(Forecast):
    """A forecast, its subject, and the result of admission."""

    kind: str
    namespace: str
    name: str
    admission: AdmissionNote
    notes: list[str]


@dataclass
class Sources:
    """The inputs of a what-if. `priority_of` returns a priority class's value, None if unknown."""

    profiles: Profiles
    cluster: Cluster
    chains: Mapping[str, Chain]
    is_ready: Callable[[], bool]
    priority_of: Callable[[str], int | None]


def router(sources: Callable[[], Sources | None], turns: Turns) -> APIRouter:
    """Return the routes; `sources()` is None if no nodes are followed. One what-if runs at a time."""
    routes = APIRouter(dependencies=[Depends(known_parameters)])

    def ready() -> Sources:
        found = sources()
        if found is None:
            raise HTTPException(404, "there is no node table: this process does not have the part extender")
        if not found.is_ready():
            raise HTTPException(503, "the cluster has not been listed yet, see /readyz")
        return found

    @routes.post(
        "/apis/v1/whatif",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    media: {"schema": {"type": "object"}}
                    for media in ("application/json", "application/yaml")
                },
            }
        },
    )
    async def whatif(
        request: Request,
        count: Annotated[int | None, Query(ge=1, le=MOST_PODS)] = None,
        admission: Admission = "auto",
        top: Annotated[int, Query(ge=1, le=100)] = 3,
    ) -> WhatIf:
        found = ready()
        document = await read_object(request)
        async with turns.take():
            return await _what_if(found, document, count, admission, top)

    @routes.post("/apis/v1/whatif/drain")
    async def drain(
        node: Annotated[str, Query(min_length=1, description="The node to be drained.")],
    ) -> Drain:
        found = ready()
        async with turns.take():
            try:
                return await drained(found.profiles, found.cluster, node)
            except LookupError as error:
                raise HTTPException(404, str(error.args[0])) from None

    return routes


async def _what_if(
    sources: Sources, document: dict[str, Any], count: int | None, mode: Admission, top: int
) -> WhatIf:
    template = pod_of(document)
    if template is None:
        raise HTTPException(
            400,
            f"kind: got {str(document.get('kind'))[:60]!r}, expected a Pod or a workload with a pod template",
        )
    if document.get("kind") == "DaemonSet":
        raise HTTPException(400, "kind: a DaemonSet has a pod for each node; send one of its pods")
    pods = pods_at_once(document) if count is None else count
    if not 1 <= pods <= MOST_PODS:
        raise HTTPException(400, f"count: got {pods}, expected 1 to {MOST_PODS}")
    raw = as_created_again(template)
    meta = raw["metadata"]
    meta["namespace"] = namespace = str(meta.get("namespace") or "default")
    _read(raw)  # an invalid pod is the caller's error, not a rejection
    note, result = _admit(sources, raw, mode)
    name = name_of(document)
    notes: list[str] = []
    about: dict[str, Any] = {
        "kind": str(document.get("kind")),
        "namespace": namespace,
        "name": name,
        "notes": notes,
    }
    if result is None:
        stop = Stop(
            pod=name,
            pods=pods,
            stage="Admission",
            message=note.message,
            rejections=[],
            preemption_might_help=0,
        )
        refused = Forecast(
            profile="",
            pods=pods,
            nodes=len(sources.cluster.nodes),
            weights={},
            placed=[],
            by_node={},
            stopped=stop,
        )
        return WhatIf(**dict(refused), **about, admission=note)
    if invalid := refusal(result):
        raise HTTPException(400, invalid)
    pod = _read(result)
    framework = sources.profiles.whole_of(pod.spec.scheduler_name)
    if framework is None:
        served = ", ".join(sources.profiles.frameworks) or "none"
        raise HTTPException(
            400, f"spec.schedulerName: no profile for {pod.spec.scheduler_name!r}; profiles: {served}"
        )
    _set_priority(sources, pod, notes)
    copies = [_numbered(pod, name, index, pods) for index in range(pods)]
    foreseen = await forecast(framework, sources.cluster, copies, top=top)
    return WhatIf(**dict(foreseen), **about, admission=note)


def _admit(
    sources: Sources, pod: dict[str, Any], mode: Admission
) -> tuple[AdmissionNote, dict[str, Any] | None]:
    """Return the result of admission for a pod, and the changed pod, None if it is rejected."""
    mutating, validating = sources.chains.get(MUTATE), sources.chains.get(VALIDATE)
    if mode == "false":
        return AdmissionNote(ran=False, message="disabled in the request", changes=[]), pod
    if mutating is None:
        message = "this process does not serve the webhooks: the pod is used unchanged"
        if mode == "true":
            raise HTTPException(400, f"admission: {message}")
        return AdmissionNote(ran=False, message=message, changes=[]), pod
    mutated = explain(mutating, pod)
    if mutated.result is None:
        return AdmissionNote(ran=True, message=f"{MUTATE}: {mutated.message}", changes=mutated.changes), None
    if validating is not None:
        validated = explain(validating, mutated.result)
        if not validated.allowed:
            message = f"{VALIDATE}: {validated.message}"
            return AdmissionNote(ran=True, message=message, changes=mutated.changes), None
    return AdmissionNote(ran=True, message="", changes=mutated.changes), mutated.result


def _read(document: dict[str, Any]) -> Pod:
    try:
        pod = decode(Pod, msgspec.json.encode(document))
        pod_requests(pod)  # quantities are parsed when they are used
    except (DecodeError, QuantityError, *MALFORMED) as error:
        raise HTTPException(400, str(error)) from None
    return pod


def _set_priority(sources: Sources, pod: Pod, notes: list[str]) -> None:
    """Resolve the priority class, as the API server does."""
    name = pod.spec.priority_class_name
    if pod.spec.priority is not None or not name:
        return
    pod.spec.priority = sources.priority_of(name)
    if pod.spec.priority is None:
        notes.append(
            f"the value of priority class {name} is unknown: the pod is evaluated with priority 0; "
            "set spec.priority otherwise"
        )


def _numbered(pod: Pod, name: str, index: int, pods: int) -> Pod:
    """Return one of several pods, with a unique name and UID."""
    own = (name or "pod") if pods == 1 else f"{name.rstrip('-') or 'pod'}-{index}"
    return replace(pod, metadata=replace(pod.metadata, name=own, uid=f"what-if-{index}"))
