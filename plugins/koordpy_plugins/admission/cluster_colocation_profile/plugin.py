"""Apply ClusterColocationProfiles to the pods that they select.

Then the pod's cpu and memory become resources of its priority class. Source: Koordinator,
`pkg/webhook/pod/mutating/cluster_colocation_profile.go`.
"""

from typing import ClassVar

from koordpy.admission.handler import CREATE, Handle, MutatingHandler, Request
from koordpy.api import extension
from koordpy.api.core import Namespace
from koordpy.api.document import Document
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs

from .application import Target
from .profiles import Profiles
from .translation import translate

TRANSLATION = "resource translation"


class ClusterColocationProfilePlugin(MutatingHandler):
    """The colocation profile handler of pod admission."""

    name: ClassVar[str] = "ClusterColocationProfile"
    needs: ClassVar[Needs] = Needs(elsewhere=("the priority classes that profiles name",))
    path: ClassVar[str] = "/mutate-pod"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.profiles = Profiles(handle, Target.POD)
        self._namespaces = handle.cluster.store(Namespace)
        self._translates = not handle.gates.enabled("ColocationProfileSkipMutatingResources")

    def mutate(self, request: Request, document: Document) -> None:
        """Apply the profiles that match; translate if any profile matched, applied or not."""
        if request.operation != CREATE:
            return
        namespace = self._namespaces.get("", request.namespace)
        matched = self.profiles.apply(
            request, document, None if namespace is None else namespace.metadata.labels
        )
        if not matched:
            return
        kept_by = "" if self._translates else "feature gate ColocationProfileSkipMutatingResources"
        for profile in matched:
            if extension.ANNOTATION_SKIP_UPDATE_RESOURCES in profile.metadata.annotations:
                kept_by = f"annotation of profile {profile.metadata.name}"
        explanation = request.explanation
        if not kept_by:
            priority_class = translate(request, document)
            if explanation is not None:
                found = priority_class or "none"
                explanation.judged(TRANSLATION, True, f"the pod's priority class is {found}")
                explanation.changed(document, f"{TRANSLATION}, priority class {found}")
        elif explanation is not None:
            explanation.judged(TRANSLATION, False, f"kept by {kept_by}")
