"""Checks that a document is a valid profile: field names, types, ranges."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from koordpy.admission.lint import Finding, Severity
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.meta import LabelSelector, LabelSelectorRequirement
from koordpy.api.scheme import DecodeError, decode, resource_of
from koordpy.lib.nearest import suggestion

from .subject import Subject, found

_TOP: Final = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
_API_VERSION: Final = resource_of(ClusterColocationProfile).api_version
_INT32: Final = range(-(1 << 31), 1 << 31)


def _names(type_: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(type_))


_SPEC: Final = _names(ClusterColocationProfile.Spec)
_SELECTOR: Final = _names(LabelSelector)
_EXPRESSION: Final = _names(LabelSelectorRequirement)


def read(documents: Sequence[Mapping[str, Any]], findings: list[Finding]) -> list[Subject]:
    """Return the profiles that can be decoded, by name; errors are added to the findings."""
    subjects: dict[str, Subject] = {}
    names = Counter(_name(document) for document in documents)
    for name, count in names.items():
        if count > 1:
            expectation = (
                f"{count} profiles have this name; names must be unique; only the last one is checked"
            )
            findings.append(found(name, Severity.ERROR, "duplicate-name", "metadata.name", name, expectation))
    for document in documents:
        findings += _unknown_fields(document)
        if document.get("apiVersion") != _API_VERSION:
            given = document.get("apiVersion")
            expectation = f"the API server does not accept the profile; expected {_API_VERSION}"
            findings.append(
                found(_name(document), Severity.ERROR, "malformed", "apiVersion", given, expectation)
            )
        try:
            profile = decode(ClusterColocationProfile, dict(document))
        except DecodeError as error:
            message = str(error).removeprefix("ClusterColocationProfile: ")
            findings.append(
                found(_name(document), Severity.ERROR, "malformed", _place(message), None, message)
            )
            continue
        subject = Subject(profile)
        if not subject.name:
            findings.append(
                found("", Severity.ERROR, "malformed", "metadata.name", None, "a profile needs a name")
            )
            continue
        subjects[subject.name] = subject
    return [subjects[name] for name in sorted(subjects)]


def check_ranges(subject: Subject) -> Iterator[Finding]:
    """Yield numbers that the custom resource's schema does not allow."""
    priority = subject.spec.koordinator_priority
    if priority is not None and priority not in _INT32:
        yield subject.finding(
            Severity.ERROR, "malformed", "spec.koordinatorPriority", priority, "expected a 32-bit integer"
        )


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _place(message: str) -> str:
    """Return the field at the end of a decoding error, as in "... - at `$.spec.labels`"."""
    _, at, place = message.rpartition("at `$.")
    return place.rstrip("`") if at else ""


def _unknown_fields(document: Mapping[str, Any]) -> Iterator[Finding]:
    spec = document.get("spec")
    places: list[tuple[str, Any, frozenset[str]]] = [("", document, _TOP), ("spec.", spec, _SPEC)]
    if isinstance(spec, dict):
        for name in ("selector", "namespaceSelector"):
            selector = spec.get(name)
            places.append((f"spec.{name}.", selector, _SELECTOR))
            expressions = selector.get("matchExpressions") if isinstance(selector, dict) else None
            if isinstance(expressions, list):
                places += [
                    (f"spec.{name}.matchExpressions[{position}].", item, _EXPRESSION)
                    for position, item in enumerate(expressions)
                ]
    for path, value, known in places:
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                yield found(
                    _name(document),
                    Severity.ERROR,
                    "unknown-field",
                    f"{path}{key}",
                    value[key],
                    f"there is no such field, and the API server drops it; {suggestion(key, known)}",
                )
