"""Apply one profile to a pod or a Reservation, step by step, in Koordinator's order.

Source: Koordinator, `pkg/webhook/pod/mutating/cluster_colocation_profile.go` (`doMutateByColocationProfile`),
`pkg/webhook/reservation/mutating/cluster_colocation_profile.go`.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from koordpy.admission.handler import Errored, Request
from koordpy.api import extension, strategic_merge, typed
from koordpy.api.core import PriorityClass
from koordpy.api.document import Document, Path
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.patch import PatchError, equal
from koordpy.api.scheme import DecodeError
from koordpy.cluster.store import Store

Labels = dict[str, Any]


class Target(Enum):
    """A kind of object that profiles are applied to. Labels and annotations are always the object's own.

    An existing pod keeps its scheduler and its priority class: the API server rejects a change of them.
    """

    POD = "Pod"
    RESERVATION = "Reservation"
    EXISTING_POD = "Pod that exists"

    @property
    def kind(self) -> str:
        """The object's kind."""
        return "Reservation" if self is Target.RESERVATION else "Pod"

    def pod_spec(self, document: Document) -> Path | None:
        """Return the object to which scheduler and priority class are written, None if there is none.

        There is none for an existing pod, and for a Reservation without a template.
        """
        if self is Target.POD:
            return ("spec",)
        if self is Target.EXISTING_POD:
            return None
        return None if document.get(("spec", "template")) is None else ("spec", "template", "spec")


def apply(
    profile: ClusterColocationProfile,
    request: Request,
    document: Document,
    target: Target,
    priority_classes: Store[PriorityClass],
) -> None:
    """Apply a profile to an object. Raises Errored(500): a PriorityClass is missing, or a patch fails."""
    for cause in _steps(profile.spec, request, document, target, priority_classes):
        if request.explanation is not None:
            request.explanation.changed(
                document, f"ClusterColocationProfile {profile.metadata.name}: {cause}"
            )


def _steps(
    spec: ClusterColocationProfile.Spec,
    request: Request,
    document: Document,
    target: Target,
    priority_classes: Store[PriorityClass],
) -> Iterator[str]:
    """Run the steps; yield the name of the profile's field after each that may have changed something."""
    put = document.set
    pod_spec = target.pod_spec(document)
    if spec.labels:
        for key, value in spec.labels.items():
            put(("metadata", "labels", key), value)
        yield "labels"
    if spec.annotations:
        for key, value in spec.annotations.items():
            put(("metadata", "annotations", key), value)
        yield "annotations"
    if spec.label_keys_mapping:
        _map_keys(document, "labels", spec.label_keys_mapping)
        yield "labelKeysMapping"
    if spec.annotation_keys_mapping:
        _map_keys(document, "annotations", spec.annotation_keys_mapping)
        yield "annotationKeysMapping"
    if spec.label_suffixes:
        labels = document.get(("metadata", "labels"), {})
        for key, suffix in spec.label_suffixes.items():
            if key in labels:
                put(("metadata", "labels", key), (labels[key] or "") + suffix)
        yield "labelSuffixes"
    if spec.scheduler_name and pod_spec is not None:
        put((*pod_spec, "schedulerName"), spec.scheduler_name)
        yield "schedulerName"
    if spec.qos_class:
        put(("metadata", "labels", extension.LABEL_POD_QOS), spec.qos_class)
        yield "qosClass"
    if spec.priority_class_name and pod_spec is not None:
        _set_priority_class(document, pod_spec, spec.priority_class_name, priority_classes)
        yield "priorityClassName"
    if spec.koordinator_priority is not None:
        put(("metadata", "labels", extension.LABEL_POD_PRIORITY), str(spec.koordinator_priority))
        yield "koordinatorPriority"
    if spec.patch is not None:
        merge(request, document, target, spec.patch)
        yield "patch"


def _map_keys(document: Document, field: str, mapping: dict[str, str]) -> None:
    """Copy the values of old keys to new keys; an absent key writes an empty string.

    Koordinator iterates over the mapping in random order; here it is sorted.
    """
    for old, new in sorted(mapping.items()):
        value = document.get(("metadata", field, old)) or ""
        document.set(("metadata", field, new), value)


def _set_priority_class(
    document: Document, pod_spec: Path, name: str, priority_classes: Store[PriorityClass]
) -> None:
    found = priority_classes.get("", name)
    if found is None:
        raise Errored(500, f'PriorityClass.scheduling.k8s.io "{name}" not found')
    document.set((*pod_spec, "priorityClassName"), name)
    document.set((*pod_spec, "priority"), found.value)
    if found.preemption_policy is None:
        document.remove((*pod_spec, "preemptionPolicy"))
    else:
        document.set((*pod_spec, "preemptionPolicy"), found.preemption_policy)


def merge(request: Request, document: Document, target: Target, patch: Any) -> None:
    """Apply a strategic merge patch as Koordinator does: to the object as decoded by its Go type.

    Unknown fields stay unchanged in the document, and are dropped from the patch. Raises Errored(500).

    A pod that was sent without a namespace has the request's while patches are applied; they may change it
    for the handlers that follow, but it is never written to the pod. Source: `pkg/webhook/pod/mutating/
    mutating_handler.go` (`isNamespaceEmpty`).
    """
    is_unwritten = target.kind == "Pod" and not request.names_namespace
    try:
        before = typed.canonical(target.kind, document.raw)
        if is_unwritten:
            _put_namespace(before, request.effective_namespace)
        merged = strategic_merge.apply(before, patch, target.kind)
        after = typed.canonical(target.kind, merged, fold_case=True)
    except (PatchError, DecodeError) as error:
        raise Errored(500, str(error)) from None
    if target.kind == "Pod":
        request.effective_namespace = after.get("metadata", {}).get("namespace", "")
    if is_unwritten:
        _put_namespace(before, "")
        _put_namespace(after, "")
    for op, path, value in list(_changes(before, after, ())):
        if op == "remove":
            document.remove(path)
        elif op == "append":
            document.append(path, value)
        else:
            document.set(path, value)
    request.reread()


def _put_namespace(pod: dict[str, Any], namespace: str) -> None:
    """Set a pod's namespace, or remove it; afterwards `metadata` exists, as in Go's encoding."""
    metadata = pod.setdefault("metadata", {})
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def _changes(before: Any, after: Any, path: Path) -> Iterator[tuple[str, Path, Any]]:
    """Yield differences; lists are compared position by position, as in the patches of Go webhooks.

    If items move, unknown fields therefore stay at their position.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield "remove", (*path, key), None
        for key, value in after.items():
            if key not in before:
                yield "set", (*path, key), value
            else:
                yield from _changes(before[key], value, (*path, key))
    elif isinstance(before, list) and isinstance(after, list):
        both = min(len(before), len(after))
        for position in range(both):
            yield from _changes(before[position], after[position], (*path, position))
        for position in range(len(before) - 1, both - 1, -1):
            yield "remove", (*path, position), None
        for item in after[both:]:
            yield "append", path, item
    elif not equal(before, after):
        yield "set", path, after
