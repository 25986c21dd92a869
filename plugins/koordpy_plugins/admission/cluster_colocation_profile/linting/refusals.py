"""Pods that are refused because of profiles: one cannot be applied, or what comes of it is refused."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import msgspec

from koordpy.admission.handler import Errored
from koordpy.admission.lint import Finding, LintHandle, Severity
from koordpy.api import extension
from koordpy.api.core import PriorityClass
from koordpy.api.qos import QoSClass

from ..probability import percentage
from .subject import Subject
from .trial import FULL, PLAIN, Example, Trial
from .values import SHIPPED
from .writes import Write, writes

_CLASS_PLACES: Final = (
    f"metadata.labels[{extension.LABEL_POD_QOS}]",
    f"metadata.labels[{extension.LABEL_POD_PRIORITY_CLASS}]",
    "spec.priority",
    "spec.containers",
    "spec.initContainers",
    "spec.resources",
    "spec.overhead",
)
_PRIORITIES: Final = (0, *SHIPPED.values())
_BY_PRIORITY: Final = {value: name for name, value in SHIPPED.items()}


def try_alone(subject: Subject, handle: LintHandle) -> Iterator[Finding]:
    """Yield that a profile cannot be applied."""
    pod = _applied_to(subject)
    if pod is None:
        return
    trial = Trial([subject], handle)
    for whom, spec in (("every pod is", PLAIN), ("pods that have such a list already are", FULL)):
        try:
            trial.admit(pod, spec)
        except Errored as error:
            yield subject.finding(
                Severity.ERROR,
                "patch-fails",
                "spec.patch",
                subject.spec.patch,
                f"it cannot be applied, so {whom} refused that the profile selects: {error.message}",
            )
            return


def try_together(subjects: Sequence[Subject], handle: LintHandle) -> Iterator[Finding]:
    """Yield that pods are refused, by what all profiles that select them make of them together.

    First for what each profile selects, then for what any two of them select both, where neither is refused
    by itself. Pods that profiles of the same kinds select come out the same and are tried once.
    """
    known = [item for item in subjects if not _has_unknown_priority(item, handle)]
    trial = Trial(subjects, handle)
    fine = []
    for subject in known:
        findings = list(_refused(subject, trial))
        yield from findings
        if not findings and (classes := _classes(subject)):
            fine.append((subject, classes))
    tried: dict[tuple[tuple[Any, ...], ...], str] = {}
    by_name = {subject.name: subject for subject in subjects}
    for (earlier, classes), (later, others) in combinations(fine, 2):
        pod = None if classes == others else Example.of(earlier, later)
        if pod is None:
            continue
        selected = [by_name[name] for name in trial.selected(pod)]
        if any(item not in known for item in selected):
            continue
        key = tuple(map(_effect, selected))
        if key not in tried:
            tried[key] = _admitted(trial, pod)
        if tried[key]:
            field, value = _cause(earlier)
            yield earlier.finding(
                Severity.WARNING,
                "refused-together",
                field,
                value,
                f"profile {later.name} selects {pod} too, and /validate-pod refuses what both make of them: "
                f"{tried[key]}",
            )


def _refused(subject: Subject, trial: Trial) -> Iterator[Finding]:
    """Yield that what a profile selects is refused."""
    pod = _applied_to(subject)
    refusal = "" if pod is None else _admitted(trial, pod)
    if pod is None or not refusal:
        return
    passing = [
        (qos, priority)
        for qos in QoSClass
        for priority in _PRIORITIES
        if (qos or priority) and not trial.admit(pod, PLAIN | {"priority": priority}, _qos(qos))
    ]
    others = [name for name in trial.selected(pod) if name != subject.name]
    together = f" together with {', '.join(others)}" if others else ""
    field, value = _cause(subject)
    if not passing:
        yield subject.finding(
            Severity.ERROR,
            "refused",
            field,
            value,
            f"/validate-pod refuses every pod that the profile selects{together}: {refusal}",
        )
        return
    yield subject.finding(
        Severity.WARNING,
        "refused-unless",
        field,
        value,
        f"/validate-pod refuses a pod that the profile selects{together}: {refusal}; unless the pod itself "
        f"has {_told(passing)}",
    )


def _admitted(trial: Trial, pod: Example) -> str:
    """Return why a plain pod is refused; empty if it is not, or if another profile fails (told elsewhere)."""
    try:
        return trial.admit(pod)
    except Errored:
        return ""


def _applied_to(subject: Subject) -> Example | None:
    """Return a pod that a profile is applied to, None if there can be none."""
    try:
        return Example.of(subject) if percentage(subject.spec.probability) > 0 else None
    except ValueError:
        return None


def _classes(subject: Subject) -> tuple[Write, ...]:
    """Return what a profile writes of QoS class, priority and resources."""
    return tuple(write for write in writes(subject.spec) if write.place.startswith(_CLASS_PLACES))


def _effect(subject: Subject) -> tuple[Any, ...]:
    """Return what of a profile decides whether its pods are refused."""
    keeps = extension.ANNOTATION_SKIP_UPDATE_RESOURCES in subject.profile.metadata.annotations
    return (keeps, *((write.place, msgspec.json.encode(write.value)) for write in _classes(subject)))


def _cause(subject: Subject) -> tuple[str, Any]:
    """Return the field that most likely makes the difference."""
    spec = subject.spec
    if spec.qos_class:
        return "spec.qosClass", spec.qos_class
    if spec.priority_class_name:
        return "spec.priorityClassName", spec.priority_class_name
    return "spec", None


def _told(passing: Sequence[tuple[QoSClass, int]]) -> str:
    """Say what pods pass: by priority alone if that is enough, else by QoS class alone, else by both."""
    by_priority = [_BY_PRIORITY[priority] for qos, priority in passing if not qos]
    if by_priority:
        return f"priority class {' or '.join(by_priority)}"
    by_qos = [qos.value for qos, priority in passing if not priority]
    if by_qos:
        return f"QoS class {' or '.join(by_qos)}"
    return " or ".join(f"QoS class {qos} with {_BY_PRIORITY[priority]}" for qos, priority in passing)


def _qos(qos: QoSClass) -> dict[str, str]:
    return {extension.LABEL_POD_QOS: qos.value} if qos else {}


def _has_unknown_priority(subject: Subject, handle: LintHandle) -> bool:
    name = subject.spec.priority_class_name
    return bool(name) and name not in SHIPPED and handle.cluster.store(PriorityClass).get("", name) is None
