"""What one profile does to a pod, step by step, in Koordinator's order.

Source: Koordinator, `pkg/webhook/pod/mutating/cluster_colocation_profile.go` (`doMutateByColocationProfile`).
"""

from collections.abc import Iterator
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


def apply(
    profile: ClusterColocationProfile,
    request: Request,
    document: Document,
    priority_classes: Store[PriorityClass],
) -> None:
    """Write a profile into a pod. Raises Errored(500) for a missing PriorityClass or a patch that fails."""
    for cause in _steps(profile.spec, request, document, priority_classes):
        if request.explanation is not None:
            request.explanation.changed(
                document, f"ClusterColocationProfile {profile.metadata.name}: {cause}"
            )


def _steps(
    spec: ClusterColocationProfile.Spec,
    request: Request,
    document: Document,
    priority_classes: Store[PriorityClass],
) -> Iterator[str]:
    """Do the steps; yield the name of the profile's field after each that may have changed something."""
    put = document.set
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
    if spec.scheduler_name:
        put(("spec", "schedulerName"), spec.scheduler_name)
        yield "schedulerName"
    if spec.qos_class:
        put(("metadata", "labels", extension.LABEL_POD_QOS), spec.qos_class)
        yield "qosClass"
    if spec.priority_class_name:
        _set_priority_class(document, spec.priority_class_name, priority_classes)
        yield "priorityClassName"
    if spec.koordinator_priority is not None:
        put(("metadata", "labels", extension.LABEL_POD_PRIORITY), str(spec.koordinator_priority))
        yield "koordinatorPriority"
    if spec.patch is not None:
        merge(request, document, spec.patch)
        yield "patch"


def _map_keys(document: Document, field: str, mapping: dict[str, str]) -> None:
    """Copy the values of old keys to new ones; a key that is not there writes an empty text.

    Koordinator walks the mapping in random order; here it is sorted.
    """
    for old, new in sorted(mapping.items()):
        value = document.get(("metadata", field, old)) or ""
        document.set(("metadata", field, new), value)


def _set_priority_class(document: Document, name: str, priority_classes: Store[PriorityClass]) -> None:
    found = priority_classes.get("", name)
    if found is None:
        raise Errored(500, f'PriorityClass.scheduling.k8s.io "{name}" not found')
    document.set(("spec", "priorityClassName"), name)
    document.set(("spec", "priority"), found.value)
    if found.preemption_policy is None:
        document.remove(("spec", "preemptionPolicy"))
    else:
        document.set(("spec", "preemptionPolicy"), found.preemption_policy)


def merge(request: Request, document: Document, patch: Any) -> None:
    """Apply a strategic merge patch as Koordinator does: to the pod as its types know it.

    What the types do not know stays in the document untouched, and is dropped from the patch. Raises
    Errored(500).
    """
    try:
        before = typed.canonical("Pod", document.raw)
        merged = strategic_merge.apply(before, patch, "Pod")
        after = typed.canonical("Pod", merged, fold_case=True)
    except (PatchError, DecodeError) as error:
        raise Errored(500, str(error)) from None
    for op, path, value in list(_changes(before, after, ())):
        if op == "remove":
            document.remove(path)
        elif op == "append":
            document.append(path, value)
        else:
            document.set(path, value)
    request.reread()


def _changes(before: Any, after: Any, path: Path) -> Iterator[tuple[str, Path, Any]]:
    """Yield differences; lists are compared position by position, as the patches of Go webhooks are.

    Where items move, fields that the types do not know therefore stay at their position.
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
