"""The linter of ClusterColocationProfiles (`koordpy profile lint`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from koordpy.admission.lint import Finding, Linter, Severity
from koordpy.api import extension
from koordpy.api.core import Namespace, PriorityClass
from koordpy.lib.feature_gates import FeatureGates

from . import selection, values
from .conflicts import find_conflicts
from .reading import check_ranges, read
from .refusals import try_alone, try_together
from .subject import KIND, Subject
from .writes import leaves, unknown_fields, writes

_CHANGEABLE: Final = frozenset(("activeDeadlineSeconds", "tolerations", "schedulingGates"))
"""The fields that may be patched in the spec of an existing pod, besides container images."""


class ProfileLinter(Linter):
    """Checks each profile alone, then all of them together."""

    kind: ClassVar[str] = KIND

    def lint(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
        """Yield findings on these profiles."""
        findings: list[Finding] = []
        subjects = read(documents, findings)
        yield from findings
        sound = []
        for subject in subjects:
            findings = list(self._alone(subject))
            yield from findings
            if not any(found.severity is Severity.ERROR for found in findings):
                sound.append(subject)
        yield from find_conflicts(subjects)
        yield from try_together(
            sound, self.handle
        )  # a profile that is invalid by itself would hide findings on the others

    def _alone(self, subject: Subject) -> Iterator[Finding]:
        cluster = self.handle.cluster
        yield from check_ranges(subject)
        yield from selection.check_selectors(subject)
        if self.handle.complete:
            yield from selection.check_namespaces(subject, cluster.store(Namespace))
        yield from selection.check_probability(subject)
        yield from selection.check_management(subject)
        yield from values.check_metadata(subject)
        yield from values.check_names(subject, cluster.store(PriorityClass), complete=self.handle.complete)
        yield from _patch_fields(subject)
        yield from _immutable_labels(subject, self.handle.gates)
        yield from try_alone(subject, self.handle)


def _patch_fields(subject: Subject) -> Iterator[Finding]:
    """Yield members of the patch that pods do not have, or that the profile controller cannot change."""
    patch = subject.spec.patch
    if not isinstance(patch, dict):
        return
    for place in unknown_fields(patch):
        yield subject.finding(
            Severity.ERROR,
            "unknown-field",
            f"spec.patch.{place}",
            None,
            "pods have no such field: it is dropped, or the patch is refused",
        )
    if not subject.is_managed:
        return
    fixed = [
        place
        for place, _ in leaves(patch)
        if place.startswith("spec.") and _top(place) not in _CHANGEABLE and not place.endswith("].image")
    ]
    if fixed:
        yield subject.finding(
            Severity.WARNING,
            "controller-cannot-patch",
            f"spec.patch.{fixed[0]}",
            None,
            "the API server does not allow this to change in an existing pod: if it differs, the profile "
            "controller's whole patch is refused, and retried every interval",
        )


def _immutable_labels(subject: Subject, gates: FeatureGates) -> Iterator[Finding]:
    """Yield labels that the profile controller writes and that the validating webhook makes immutable."""
    if not subject.is_managed:
        return
    fixed = {
        f"metadata.labels[{extension.LABEL_POD_QOS}]",
        f"metadata.labels[{extension.LABEL_POD_PRIORITY_CLASS}]",
    }
    if not gates.enabled("ColocationProfileSkipValidatingPriority"):
        fixed.add(f"metadata.labels[{extension.LABEL_POD_PRIORITY}]")
    for write in writes(subject.spec):
        if write.place in fixed:
            yield subject.finding(
                Severity.WARNING,
                "controller-cannot-patch",
                write.field,
                write.value,
                "/validate-pod does not allow a change of this label in an existing pod: the profile "
                "controller's patch of pods that lack it is refused, and retried every interval",
            )


def _top(place: str) -> str:
    return place.removeprefix("spec.").partition(".")[0].partition("[")[0]
