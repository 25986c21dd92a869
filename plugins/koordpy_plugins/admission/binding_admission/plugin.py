"""Let only listed users bind pods to nodes.

A user who may create `pods/binding` can bypass the scheduler and its guarantees. This handler restricts that
to listed user names, in some namespaces; what it cannot decide it allows. Source: Koordinator,
`pkg/webhook/pod/validating/binding_admission.go`.
"""

import logging
from typing import ClassVar, Final

from prometheus_client import Counter

from koordpy.admission.handler import Denied, Handle, Request, ValidatingHandler
from koordpy.api.core import Pod

from .args import BindingAdmissionArgs, items

log = logging.getLogger(__name__)

ALL_NAMESPACES: Final = "*"
DENIAL: Final = "binding denied: username is not in the allowed list"
DECISIONS = Counter(
    "koord_manager_webhook_binding_admission_decisions",
    "Decisions of the binding admission webhook.",
    ["decision"],
)


class BindingAdmissionPlugin(ValidatingHandler):
    """The only handler of binding admission."""

    name: ClassVar[str] = "BindingAdmission"
    path: ClassVar[str] = "/validate-pod-binding"
    feature: ClassVar[str | None] = "BindingAdmissionWebhook"
    args: BindingAdmissionArgs

    def __init__(self, args: BindingAdmissionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = handle.cluster.store(Pod)
        self._user_names = items(self.args.user_name)
        self._namespaces = items(self.args.namespaces)
        self._excluded = items(self.args.exclude_namespaces)
        self._labels = items(self.args.bypass_labels)
        self._annotations = items(self.args.bypass_annotations)

    def validate(self, request: Request) -> None:
        """Refuse a binding by a user who is not listed; the Binding itself is not read."""
        decision = self._decide(request)
        if decision:
            DECISIONS.labels(decision).inc()
        if decision == "dry_run":
            log.info("dry run: %s: %s/%s", DENIAL, request.namespace, request.name)
        if decision == "denied":
            raise Denied(DENIAL)

    def _decide(self, request: Request) -> str:
        """Return the decision's metric label, empty for one that is not counted."""
        if not self._user_names:
            return ""
        username = request.user_info.username
        if any(name in username for name in self._user_names):
            return "allowed_username"
        if request.namespace in self._excluded:
            return "excluded_ns"
        if self.args.namespaces != ALL_NAMESPACES:
            if not self._namespaces:
                return ""
            if request.namespace not in self._namespaces:
                return "out_of_scope"
        pod = self._pods.get(request.namespace, request.name)
        if pod is None:
            return ""
        if not self._labels.isdisjoint(pod.metadata.labels):
            return "bypass_label"
        if not self._annotations.isdisjoint(pod.metadata.annotations):
            return "bypass_annotation"
        return "dry_run" if self.args.dry_run else "denied"
