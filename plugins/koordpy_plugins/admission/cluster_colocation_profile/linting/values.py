"""Checks of a profile's values: keys, values and names that the API server or the webhooks refuse."""

import re
from collections.abc import Iterator
from typing import Any, Final

from koordpy.admission.lint import Finding, Severity
from koordpy.api import extension, labels
from koordpy.api.core import PriorityClass as PriorityClassObject
from koordpy.api.qos import PriorityClass, QoSClass
from koordpy.cluster.store import Store

from .subject import Subject

SHIPPED: Final = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000}
"""The PriorityClasses that come with Koordinator, and their values."""

_DNS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_CLASSES: Final = {
    extension.LABEL_POD_QOS: ([item.value for item in QoSClass if item], "QoS class"),
    extension.LABEL_POD_PRIORITY_CLASS: ([item.value for item in PriorityClass if item], "priority class"),
}


def check_metadata(subject: Subject) -> Iterator[Finding]:
    """Yield invalid labels and annotations; pods that get them are refused."""
    spec = subject.spec
    patched = spec.patch.get("metadata") if isinstance(spec.patch, dict) else None
    patched = patched if isinstance(patched, dict) else {}
    for field, written in (
        ("spec.labels", spec.labels),
        ("spec.patch.metadata.labels", patched.get("labels")),
    ):
        for key, value in written.items() if isinstance(written, dict) else ():
            yield from _label(subject, f"{field}[{key}]", key, value)
    for field, written in (
        ("spec.annotations", spec.annotations),
        ("spec.patch.metadata.annotations", patched.get("annotations")),
    ):
        for key in written if isinstance(written, dict) else ():
            yield from _key(subject, f"{field}[{key}]", key)
    for old, new in sorted(spec.label_keys_mapping.items()):
        yield from _key(subject, f"spec.labelKeysMapping[{old}]", new)
    for old, new in sorted(spec.annotation_keys_mapping.items()):
        yield from _key(subject, f"spec.annotationKeysMapping[{old}]", new)
    yield from _mappings(subject)
    yield from _suffixes(subject)


def check_names(
    subject: Subject, priority_classes: Store[PriorityClassObject], *, complete: bool
) -> Iterator[Finding]:
    """Yield a QoS class, a scheduler name or a priority class that does not exist or is invalid."""
    spec = subject.spec
    known = _CLASSES[extension.LABEL_POD_QOS][0]
    if spec.qos_class and spec.qos_class not in known:
        yield subject.finding(
            Severity.ERROR,
            "unknown-qos",
            "spec.qosClass",
            spec.qos_class,
            f"the API server refuses the profile; expected one of {', '.join(known)}",
        )
    if spec.scheduler_name and (
        len(spec.scheduler_name) > 253 or not _DNS_NAME.fullmatch(spec.scheduler_name)
    ):
        yield subject.finding(
            Severity.ERROR,
            "invalid-name",
            "spec.schedulerName",
            spec.scheduler_name,
            "pods that get it are refused; expected a lower-case DNS name",
        )
    name = spec.priority_class_name
    if name and priority_classes.get("", name) is None:
        if complete:
            yield subject.finding(
                Severity.ERROR,
                "no-priority-class",
                "spec.priorityClassName",
                name,
                "the cluster has no such PriorityClass: every pod that the profile selects is refused",
            )
        elif name not in SHIPPED:
            yield subject.finding(
                Severity.NOTE,
                "no-priority-class",
                "spec.priorityClassName",
                name,
                "no such PriorityClass is among the files; where the cluster has none either, every pod that "
                "the profile selects is refused",
            )


def _label(subject: Subject, field: str, key: str, value: Any) -> Iterator[Finding]:
    yield from _key(subject, field, key)
    if not isinstance(value, str):
        return
    if problem := labels.value_error(value):
        yield subject.finding(
            Severity.ERROR, "invalid-label", field, value, f"pods that get it are refused: {problem}"
        )
    elif key in _CLASSES and value not in _CLASSES[key][0]:
        names, what = _CLASSES[key]
        yield subject.finding(
            Severity.ERROR,
            "unknown-qos" if key == extension.LABEL_POD_QOS else "unknown-priority-class",
            field,
            value,
            f"not a {what}, so it is treated as none; expected one of {', '.join(names)}",
        )


def _key(subject: Subject, field: str, key: str) -> Iterator[Finding]:
    if problem := labels.key_error(key):
        yield subject.finding(
            Severity.ERROR, "invalid-key", field, key, f"pods that get the key {key!r} are refused: {problem}"
        )


def _mappings(subject: Subject) -> Iterator[Finding]:
    """Yield mappings with an effect that is not obvious."""
    spec = subject.spec
    sure = set(spec.labels) | {
        requirement.key for requirement in subject.selector.requirements if not requirement.matches({})
    }
    for field, mapping, given in (
        ("labelKeysMapping", spec.label_keys_mapping, sure),
        ("annotationKeysMapping", spec.annotation_keys_mapping, set(spec.annotations)),
    ):
        for old, new in sorted(mapping.items()):
            path = f"spec.{field}[{old}]"
            if new in mapping and new != old:
                yield subject.finding(
                    Severity.WARNING,
                    "mapping-chain",
                    path,
                    new,
                    f"{new!r} is mapped to {mapping[new]!r} in turn: Koordinator's order is random, koordpy "
                    "uses the order of keys; expected no chains",
                )
            if old not in given:
                yield subject.finding(
                    Severity.NOTE,
                    "mapping-empty",
                    path,
                    new,
                    f"a pod without {old!r} gets {new!r} with an empty value",
                )


def _suffixes(subject: Subject) -> Iterator[Finding]:
    for key, suffix in sorted(subject.spec.label_suffixes.items()):
        field = f"spec.labelSuffixes[{key}]"
        if problem := labels.value_error(f"x{suffix}"):
            yield subject.finding(
                Severity.ERROR, "invalid-label", field, suffix, f"pods that get it are refused: {problem}"
            )
        elif suffix and subject.is_managed:
            yield subject.finding(
                Severity.ERROR,
                "suffix-accumulates",
                field,
                suffix,
                "the profile controller appends it to a pending pod repeatedly (every 5 minutes by "
                f"default) until the label has more than {labels.MAX_NAME_LENGTH} characters; expected no "
                "suffixes together with the controller",
            )
