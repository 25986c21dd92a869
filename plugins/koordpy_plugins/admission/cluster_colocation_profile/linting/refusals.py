"""Pods that are refused because of profiles: a profile cannot be applied, or its result is refused."""

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
    """Yield a finding if a profile cannot be applied."""
    pod = _applied_to(subject)
    if pod is None:
        return
    trial = Trial([subject], handle)
    for refused, spec in (
        ("every pod that the profile selects is", PLAIN),
        ("pods that the profile selects and that have such a list already are", FULL),
    ):
        try:
            trial.admit(pod, spec)
        except Errored as error:
            yield subject.finding(
                Severity.ERROR,
                "patch-fails",
                "spec.patch",
                subject.spec.patch,
                f"it cannot be applied, so {refused} refused: {error.message}",
            )
            return


def try_together(subjects: Sequence[Subject], handle: LintHandle) -> Iterator[Finding]:
    """Yield findings if pods are refused with all profiles that select them applied.

    First for the pods of each profile, then for those of any two profiles, where neither profile alone causes
    a refusal. Pods selected by equivalent profiles have the same result and are tried once.
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
                f"profile {later.name} selects {pod} too, and /validate-pod refuses the result of both: "
                f"{tried[key]}",
            )


def _refused(subject: Subject, trial: Trial) -> Iterator[Finding]:
    """Yield a finding if the pods of a profile are refused."""
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
    """Return why a plain pod is refused; empty if it is not, or if another profile fails."""
    try:
        return trial.admit(pod)
    except Errored:
        return ""


def _applied_to(subject: Subject) -> Example | None:
    """Return a pod to which a profile is applied, None if there can be none."""
    try:
        return Example.of(subject) if percentage(subject.spec.probability) > 0 else None
    except ValueError:
        return None


def _classes(subject: Subject) -> tuple[Write, ...]:
    """Return the QoS class, priority and resources that a profile writes."""
    return tuple(write for write in writes(subject.spec) if write.place.startswith(_CLASS_PLACES))


def _effect(subject: Subject) -> tuple[Any, ...]:
    """Return the values of a profile that decide whether its pods are refused."""
    keeps = extension.ANNOTATION_SKIP_UPDATE_RESOURCES in subject.profile.metadata.annotations
    return (keeps, *((write.place, msgspec.json.encode(write.value)) for write in _classes(subject)))


def _cause(subject: Subject) -> tuple[str, Any]:
    """Return the field that is the most likely cause."""
    spec = subject.spec
    if spec.qos_class:
        return "spec.qosClass", spec.qos_class
    if spec.priority_class_name:
        return "spec.priorityClassName", spec.priority_class_name
    return "spec", None


def _told(passing: Sequence[tuple[QoSClass, int]]) -> str:
    """Describe the accepted pods: by priority alone if that suffices, else by QoS class, else by both."""
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
