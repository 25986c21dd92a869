"""Which pods may be evicted, and in which order."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from koordpy.agent.interface.states import PodMeta
from koordpy.api import extension, qos
from koordpy.api.core import Pod
from koordpy.lib import go_sort, int64

from .requests import request_of
from .tasks import Candidate

log = logging.getLogger(__name__)

_POLICY = msgspec.json.Decoder(list[str | None] | None)


def allows(pod: Pod, feature: str) -> bool:
    """Return whether a pod's eviction policy allows a feature; a pod without one allows all.

    The annotation `koordinator.sh/eviction-policy` is a JSON list of features; an invalid one allows none.
    """
    text = pod.metadata.annotations.get(extension.ANNOTATION_POD_EVICTION_POLICY)
    if text is None:
        return True
    try:
        features = _POLICY.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        log.warning(
            "pod %s is not evicted: annotation %s is %r, expected a JSON list of features: %s",
            pod.metadata.key,
            extension.ANNOTATION_POD_EVICTION_POLICY,
            text[:200],
            error,
        )
        return False
    return feature in (features or ())


def is_inactive(pod: Pod) -> bool:
    """Return whether a pod neither waits nor runs."""
    return pod.status.phase not in ("Pending", "Running")


def eviction_priority(pod: Pod) -> int:
    """Return the annotation `koordinator.sh/eviction-priority`: lower is evicted first; 0 if invalid."""
    text = pod.metadata.annotations.get(extension.ANNOTATION_POD_EVICTION_PRIORITY)
    if text is None:
        return 0
    number = int64.parse(text, 32)
    if number is None:
        log.warning(
            "pod %s: annotation %s is %r, expected a 32-bit integer; 0 is used",
            pod.metadata.key,
            extension.ANNOTATION_POD_EVICTION_PRIORITY,
            text[:200],
        )
        return 0
    return number


def best_effort(
    pods: Iterable[PodMeta],
    feature: str,
    candidate: Callable[[Pod], Candidate],
    less: Callable[[Candidate, Candidate], bool],
) -> list[Candidate]:
    """Return the pods of QoS class BE that a feature may evict, sorted by a less function.

    It need not be a proper order: the sort is Go's.
    """
    found = [
        candidate(meta.pod)
        for meta in pods
        if qos.qos_class_raw(meta.pod) == qos.QoSClass.BE and allows(meta.pod, feature)
    ]
    go_sort.sort(found, less)
    return found


def by_priority(
    pods: Iterable[PodMeta],
    feature: str,
    highest: int,
    resource: str,
    used: Callable[[Pod], int | None],
    last_key: Callable[[Candidate], int],
) -> list[Candidate]:
    """Return the pods that a feature may evict which consider priorities, the first to be evicted first.

    These are active pods up to a priority whose label `koordinator.sh/eviction-enabled` is true, and whose
    usage is known (`used`: milli-CPU or bytes). They are sorted by eviction priority, priority, the label
    `koordinator.sh/priority`, and at last by the largest `last_key`.
    """
    found: list[tuple[tuple[int, int, int, int], Candidate]] = []
    for meta in pods:
        pod = meta.pod
        if is_inactive(pod) or not allows(pod, feature):
            continue
        priority = qos.priority_value(pod)
        if priority > highest or pod.metadata.labels.get(extension.LABEL_POD_EVICTION_ENABLED) != "true":
            continue
        amount = used(pod)
        if amount is None:
            continue
        candidate = Candidate(pod, amount, request_of(pod, resource)[1])
        label = int64.parse(pod.metadata.labels.get(extension.LABEL_POD_PRIORITY, ""))
        sub_priority = priority if label is None else label
        found.append(((eviction_priority(pod), priority, sub_priority, -last_key(candidate)), candidate))
    go_sort.sort(found, lambda a, b: a[0] < b[0])
    return [candidate for _, candidate in found]
