"""Turn pods into what the ClusterColocationProfiles that select them say.

The profiles that select a pod are applied in the order of their names, each by its own probability; then the
pod's cpu and memory become resources of its priority class. Source: Koordinator,
`pkg/webhook/pod/mutating/cluster_colocation_profile.go`.
"""

from typing import ClassVar

from koordpy.admission.handler import CREATE, Errored, Handle, MutatingHandler, Request
from koordpy.api import extension
from koordpy.api.config_model import ConfigModel
from koordpy.api.core import Namespace, PriorityClass
from koordpy.api.document import Document
from koordpy.api.koordinator import ClusterColocationProfile

from .application import apply
from .index import Labels, Matcher, ProfileIndex
from .probability import is_skipped, percentage
from .translation import translate

TRANSLATION = "resource translation"


class ClusterColocationProfilePlugin(MutatingHandler):
    """The colocation profile step of pod admission."""

    name: ClassVar[str] = "ClusterColocationProfile"
    path: ClassVar[str] = "/mutate-pod"

    def __init__(self, args: ConfigModel, handle: Handle) -> None:
        super().__init__(args, handle)
        self.profiles = ProfileIndex()
        self._namespaces = handle.cluster.store(Namespace)
        self._priority_classes = handle.cluster.store(PriorityClass)
        self._translates = not handle.gates.enabled("ColocationProfileSkipMutatingResources")
        handle.cluster.store(ClusterColocationProfile).subscribe(
            on_add=self.profiles.put,
            on_update=lambda _, profile: self.profiles.put(profile),
            on_delete=lambda profile: self.profiles.remove(profile.metadata.name),
        )

    def mutate(self, request: Request, document: Document) -> None:
        """Apply what matches the labels as submitted; translate if any profile matched, applied or not."""
        if request.operation != CREATE:
            return
        labels = self._labels(document)
        namespace = self._namespaces.get("", request.namespace)
        namespace_labels = None if namespace is None else namespace.metadata.labels
        matched = self.profiles.find(labels, namespace_labels)
        explanation = request.explanation
        if explanation is not None:
            for matcher in self.profiles:
                if matcher not in matched:
                    explanation.judged(matcher.name, False, matcher.reason(labels, namespace_labels))
        if not matched:
            return
        translates = self._translates
        kept_by = "feature gate ColocationProfileSkipMutatingResources"
        for matcher in matched:
            profile = matcher.profile
            if extension.ANNOTATION_SKIP_UPDATE_RESOURCES in profile.metadata.annotations:
                translates, kept_by = False, f"annotation of profile {matcher.name}"
            applied, roll = self._is_applied(matcher)
            if explanation is not None:
                explanation.judged(matcher.name, applied, matcher.reason(labels, namespace_labels) + roll)
            if applied:
                apply(profile, request, document, self._priority_classes)
        if translates:
            priority_class = translate(request, document)
            if explanation is not None:
                explanation.judged(
                    TRANSLATION, True, f"the pod's priority class is {priority_class or 'none'}"
                )
                explanation.changed(document, f"{TRANSLATION}, priority class {priority_class or 'none'}")
        elif explanation is not None:
            explanation.judged(TRANSLATION, False, f"kept by {kept_by}")

    def _labels(self, document: Document) -> Labels:
        """Return a copy of the pod's labels; a null value is an empty one."""
        labels = document.get(("metadata", "labels"), {})
        return {key: value if value is not None else "" for key, value in labels.items()}

    def _is_applied(self, matcher: Matcher) -> tuple[bool, str]:
        """Roll by the profile's probability; also return what happened, as the end of a sentence."""
        probability = matcher.profile.spec.probability
        if probability is None:
            return True, ""
        try:
            percent = percentage(probability)
        except ValueError as error:
            raise Errored(500, str(error)) from None
        applied = not is_skipped(percent, self.handle.rng)
        return applied, f"; probability {probability} is {'with' if applied else 'against'} it"
