"""The profiles of a cluster: their selection of an object, and their combined application.

Profiles that select an object are applied in the order of their names, each by its own probability. Source:
Koordinator, `pkg/webhook/pod/mutating/cluster_colocation_profile.go`.
"""

from msgspec.structs import replace

from koordpy.admission.handler import Errored, Handle, Request
from koordpy.api.core import PriorityClass
from koordpy.api.document import Document
from koordpy.api.koordinator import ClusterColocationProfile

from .application import Target, apply
from .index import Labels, Matcher, ProfileIndex
from .probability import is_skipped, percentage


class Profiles:
    """The profiles of the cluster for one kind of target. Reservations are cluster-scoped."""

    def __init__(self, handle: Handle, target: Target) -> None:
        self.index = ProfileIndex()
        self._target = target
        self._rng = handle.rng
        self._priority_classes = handle.cluster.store(PriorityClass)
        handle.cluster.store(ClusterColocationProfile).subscribe(
            on_add=self._put,
            on_update=lambda _, profile: self._put(profile),
            on_delete=lambda profile: self.index.remove(profile.metadata.name),
        )

    def apply(
        self, request: Request, document: Document, namespace_labels: Labels | None = None
    ) -> list[ClusterColocationProfile]:
        """Apply the profiles that match the labels as submitted; return all that match, applied or not.

        Raises Errored(500).
        """
        labels = _labels(document)
        matched = self.index.find(labels, namespace_labels)
        explanation = request.explanation
        if explanation is not None:
            for matcher in self.index:
                if matcher not in matched:
                    explanation.judged(matcher.name, False, matcher.reason(labels, namespace_labels))
        for matcher in matched:
            applied, roll = self._is_applied(matcher)
            if explanation is not None:
                explanation.judged(matcher.name, applied, matcher.reason(labels, namespace_labels) + roll)
            if applied:
                apply(matcher.profile, request, document, self._target, self._priority_classes)
        return [matcher.profile for matcher in matched]

    def _put(self, profile: ClusterColocationProfile) -> None:
        if self._target is Target.RESERVATION:
            profile = replace(profile, spec=replace(profile.spec, namespace_selector=None))
        self.index.put(profile)

    def _is_applied(self, matcher: Matcher) -> tuple[bool, str]:
        """Draw with the profile's probability; also return the outcome, as the end of a sentence."""
        probability = matcher.profile.spec.probability
        if probability is None:
            return True, ""
        try:
            percent = percentage(probability)
        except ValueError as error:
            raise Errored(500, str(error)) from None
        applied = not is_skipped(percent, self._rng)
        return applied, f"; probability {probability}: {'applied' if applied else 'skipped'}"


def _labels(document: Document) -> Labels:
    """Return a copy of the object's labels; a null value becomes an empty string."""
    labels = document.get(("metadata", "labels"), {})
    return {key: value if value is not None else "" for key, value in labels.items()}
