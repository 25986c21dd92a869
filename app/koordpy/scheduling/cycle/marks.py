"""Labels and annotations that PreBind plugins set and that the binding write itself cannot carry.

A Binding sets annotations on its pod in the same write; labels only behind a gate of the API server. So
labels are patched first: a pod is never bound without them, and the patch is reverted if the bind fails.
Source: Koordinator, `pkg/scheduler/plugins/defaultprebind`, which patches both and leaves them there.
"""

import logging
import random
from collections.abc import Iterable, Mapping

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound, TooManyRequests
from koordpy.cluster.retry import retried
from koordpy.scheduling.interface.status import SUCCESS, Status

log = logging.getLogger(__name__)

Marked = Pod | Reservation

BEING_DELETED = "pod is being deleted"


class Marks:
    """Labels and annotations to set on one object that is to be bound, and to revert if the bind fails.

    Labels that the object already has are not marks. An annotation that is None is removed.
    """

    def __init__(
        self,
        target: Marked,
        labels: Mapping[str, str],
        annotations: Mapping[str, str | None],
        client: Client | None,
        rng: random.Random,
    ) -> None:
        known = target.metadata.labels
        self._target, self._client, self._rng = target, client, rng
        self._labels = {key: value for key, value in labels.items() if known.get(key) != value}
        self._annotations = dict(annotations)
        self._are_set = False

    def __bool__(self) -> bool:
        return bool(self._labels or self._annotations)

    async def set(self) -> Status:
        """Patch the object if it is still the same one and not being deleted; do nothing without marks."""
        if not self:
            return SUCCESS
        client, meta = self._client, self._target.metadata
        if client is None:
            return Status.failed(f"no client to write labels of {meta.name} with: {self._labels}")
        document = {"uid": meta.uid, **_parts(self._labels, self._annotations)}
        self._are_set = True  # a patch whose answer is lost may have taken effect
        try:
            written: Marked = await retried(
                lambda: client.patch(type(self._target), meta.namespace, meta.name, {"metadata": document}),
                rng=self._rng,
                on=(Conflict, TooManyRequests, ConnectionFailed),
            )
        except (ApiError, ConnectionFailed) as error:
            return Status.failed(error)
        return Status.failed(BEING_DELETED) if written.metadata.deletion_timestamp else SUCCESS

    async def take_back(self) -> None:
        """Restore the former values, unless the object is bound or has changed since."""
        if not self._are_set or self._client is None:
            return
        self._are_set = False
        try:
            await retried(self._take_back, rng=self._rng, on=(Conflict, TooManyRequests, ConnectionFailed))
        except NotFound:
            return
        except (ApiError, ConnectionFailed) as error:
            log.warning("%s keeps labels of a failed attempt: %s", self._target.metadata.name, error)

    async def _take_back(self) -> None:
        client, before = self._client, self._target.metadata
        assert client is not None
        live: Marked = await client.get(type(self._target), before.namespace, before.name)
        meta = live.metadata
        if meta.uid != before.uid or _is_bound(live):
            return
        labels = _former(self._labels, meta.labels, before.labels)
        annotations = _former(self._annotations, meta.annotations, before.annotations)
        if labels or annotations:
            document = {"resourceVersion": meta.resource_version, **_parts(labels, annotations)}
            await client.patch(type(self._target), meta.namespace, meta.name, {"metadata": document})


def _former(
    set_: Mapping[str, str | None], now: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the former values (None if there was none) of all marks that are still as set."""
    keys: Iterable[str] = (key for key, value in set_.items() if now.get(key) == value)
    return {key: before.get(key) for key in keys if before.get(key) != set_[key]}


def _parts(labels: Mapping[str, object], annotations: Mapping[str, object]) -> dict[str, object]:
    return {name: values for name, values in (("labels", labels), ("annotations", annotations)) if values}


def _is_bound(target: Marked) -> bool:
    return bool(target.spec.node_name if isinstance(target, Pod) else target.status.node_name)
