"""The Reservations of migrations: what they reserve, how they are made, read and deleted.

Source: Koordinator, `pkg/descheduler/controllers/migration/reservation`.
"""

from copy import deepcopy
from datetime import datetime
from typing import Any

from koordpy.api import extension
from koordpy.api.meta import Condition
from koordpy.api.pod_migration_job import CREATED_BY, LABEL_CREATED_BY
from koordpy.api.reservation import FAILED, PENDING, Reservation
from koordpy.api.reservation_status import (
    READY,
    REASON_EXPIRED,
    REASON_SCHEDULED,
    REASON_UNSCHEDULABLE,
    SCHEDULED,
    TRUE,
)
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.controllers.reconcile import ReconcileError
from koordpy.lib.clock import Clock

Document = dict[str, Any]

_RESERVATION = resource_of(Reservation)


# --- what a Reservation's status means to a migration ---------------------------------------------


def condition(reservation: Reservation, type_: str, reason: str) -> Condition | None:
    """Return the first condition of a type with a reason."""
    return next(
        (item for item in reservation.status.conditions if item.type == type_ and item.reason == reason), None
    )


def unschedulable(reservation: Reservation) -> Condition | None:
    """Return the condition that says why a Reservation could not be scheduled."""
    return condition(reservation, SCHEDULED, REASON_UNSCHEDULABLE)


def is_pending(reservation: Reservation) -> bool:
    """Return whether a Reservation still waits for a node."""
    return reservation.status.phase in ("", PENDING)


def is_scheduled(reservation: Reservation) -> bool:
    """Return whether a Reservation has a node."""
    found = condition(reservation, SCHEDULED, REASON_SCHEDULED)
    return bool(reservation.node_name) and found is not None and found.status == TRUE


def is_expired(reservation: Reservation) -> bool:
    """Return whether a Reservation has failed because it expired."""
    return reservation.status.phase == FAILED and condition(reservation, READY, REASON_EXPIRED) is not None


def is_for_pending_pod(reservation: Reservation) -> bool:
    """Return whether a Reservation is for one pod that exists: the pod of a job that waits for a node."""
    return any(
        owner.object is not None and owner.controller is None and owner.label_selector is None
        for owner in reservation.spec.owners
    )


# --- the template ---------------------------------------------------------------------------------


def options_for(
    job: Document, pod: Document, ttl: str | None, now: datetime, *, keep_claims: bool = True
) -> Document:
    """Return the `reservationOptions` of a job with its template completed; all arguments are documents.

    The template reserves what the pod requests, on another node than the pod's. `ttl` is the job's, None for
    none; without `keep_claims` volumes with claims are left out.
    """
    options: Document = deepcopy((job.get("spec") or {}).get("reservationOptions") or {})
    template = options.get("template")
    if template is None:
        template = options["template"] = {}
    metadata = _part(template, "metadata")
    spec = _part(template, "spec")
    if not metadata.get("name"):
        metadata["name"] = job["metadata"]["uid"]
    if spec.get("template") is None:
        spec["template"] = _pod_template(pod)
    if not spec.get("owners"):
        owners = owners_of(pod)
        if owners:
            spec["owners"] = owners
    spec["allocateOnce"] = True
    pod_spec = _part(spec["template"], "spec")
    pod_spec.pop("nodeName", None)
    labels = _part(metadata, "labels")
    labels[LABEL_CREATED_BY] = CREATED_BY
    labels[extension.LABEL_RESERVATION_ORDER] = order(now)
    if spec.get("ttl") is None and spec.get("expires") is None and ttl is not None:
        spec["ttl"] = ttl
    node_name = (pod.get("spec") or {}).get("nodeName")
    if node_name:
        _avoid(pod_spec, node_name)
    if not keep_claims:
        _drop_claims(pod_spec)
    return options


def owners_of(pod: Document) -> list[Document]:
    """Return who may use the Reservation: a pod that waits for a node, else what the pod's controller makes.

    A pod without a controller has none.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    if status.get("phase") == "Pending":
        scheduled = next(
            (item for item in status.get("conditions") or () if item.get("type") == "PodScheduled"), None
        )
        if scheduled is not None and scheduled.get("status") == "False":
            reference = {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata}
            return [{"object": {"kind": "Pod", **reference}}]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return [{"controller": {**owner, "namespace": metadata.get("namespace", "")}}]
    return []


def order(now: datetime) -> str:
    """Return the value of the label that makes the scheduler prefer older Reservations: milliseconds."""
    return str(int(now.timestamp() * 1000))


def _pod_template(pod: Document) -> Document:
    """Return a pod as a template, without the bookkeeping of its writers."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
    return deepcopy({"metadata": metadata, "spec": pod.get("spec") or {}})


def _avoid(pod_spec: Document, node_name: str) -> None:
    """Require another node: in every required term, or in one of its own."""
    affinity = _part(_part(pod_spec, "affinity"), "nodeAffinity")
    required = _part(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    field = {"key": "metadata.name", "operator": "NotIn", "values": [node_name]}
    terms = required.get("nodeSelectorTerms") or [{}]
    for term in terms:
        term["matchFields"] = [*(term.get("matchFields") or ()), dict(field)]
    required["nodeSelectorTerms"] = terms


def _drop_claims(pod_spec: Document) -> None:
    volumes = [
        volume
        for volume in pod_spec.pop("volumes", None) or ()
        if volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None
    ]
    if volumes:
        pod_spec["volumes"] = volumes


def _part(document: Document, key: str) -> Document:
    """Return an object's member that is an object; null counts as absent, and it is made if absent."""
    if document.get(key) is None:
        document[key] = {}
    part: Document = document[key]
    return part


# --- the API --------------------------------------------------------------------------------------


class Reservations:
    """The Reservations of the cluster, read from its store and, where that lacks one, from the server."""

    def __init__(self, cluster: Cluster, client: Client, clock: Clock) -> None:
        self.store = cluster.store(Reservation)
        self._client, self._clock = client, clock

    async def get(self, name: str) -> Reservation:
        """Return a Reservation. Raises NotFound, or ReconcileError for an empty name."""
        if not name:
            raise ReconcileError(f'{_RESERVATION.plural}.{_RESERVATION.group} "" not found')
        return self.store.get("", name) or await self._client.get(Reservation, "", name)

    async def create(self, template: Document) -> Document:
        """Create the Reservation of a template and return it; one of that name is used as it is."""
        metadata = template["metadata"]
        document = {
            "apiVersion": _RESERVATION.api_version,
            "kind": _RESERVATION.kind,
            "metadata": metadata,
            "spec": template["spec"],
        }
        try:
            return await self._client.create_raw(_RESERVATION, "", document)
        except AlreadyExists:
            return await self._client.get_raw(_RESERVATION, "", metadata["name"])

    async def ensure_order(self, reservation: Reservation) -> None:
        """Give a Reservation with labels the one that orders it. (Koordinator stores none without labels.)"""
        metadata = reservation.metadata
        if not metadata.labels or extension.LABEL_RESERVATION_ORDER in metadata.labels:
            return
        labels = {extension.LABEL_RESERVATION_ORDER: order(self._clock.now())}
        patch = {"metadata": {"resourceVersion": metadata.resource_version, "labels": labels}}
        await self._client.patch(Reservation, "", metadata.name, patch)

    async def delete(self, name: str) -> None:
        """Delete a Reservation, unless it is gone."""
        if not name:
            return
        try:
            found = await self.get(name)
            await self._client.delete(Reservation, "", name, uid=found.metadata.uid)
        except NotFound:
            return
