"""Refuse pods in parent quotas, and changes of the preemptible label.

Usage is counted at the leaves of the quota tree, and whether a pod is preemptible is part of that count.
Source: Koordinator, `pkg/webhook/elasticquota/pod_check.go`.
"""

from typing import ClassVar

from koordpy.admission.handler import CREATE, UPDATE, Errored, Handle, Request, ValidatingHandler
from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.api.quota.info import DEFAULT
from koordpy.cluster.quota.membership import QuotaMembership
from koordpy.cluster.quota.topology import QuotaTopology

_PREEMPTIBLE = extension.LABEL_QUOTA_PREEMPTIBLE


class QuotaMetaCheckPlugin(ValidatingHandler):
    """The quota membership check of pod admission."""

    name: ClassVar[str] = "QuotaMetaCheck"
    metric_name: ClassVar[str] = "QuotaMetaChecker"
    path: ClassVar[str] = "/validate-pod"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._parents_take_pods = handle.gates.enabled("SupportParentQuotaSubmitPod")
        self._topology = handle.cluster.shared(QuotaTopology)
        self._membership = QuotaMembership(
            handle.cluster, label_only=handle.gates.enabled("DisableDefaultQuota")
        )

    def validate(self, request: Request) -> None:
        """Refuse a changed preemptible label on update, and a pod whose quota is a parent."""
        if request.operation not in (CREATE, UPDATE):
            return
        pod = request.object(Pod)
        labels = pod.metadata.labels
        if request.operation == UPDATE:
            old = request.old_object(Pod).metadata.labels
            if old.get(_PREEMPTIBLE, "") != labels.get(_PREEMPTIBLE, ""):
                raise Errored(400, "Preemptible label is forbidden modify now.")
        if self._parents_take_pods:
            return
        info = self._topology.get(self._membership.name_of(labels, pod.metadata.namespace))
        if info is not None and info.name != DEFAULT and info.is_parent:
            raise Errored(
                400, f"pod can not be linked to a parentQuotaGroup,quota:{info.name}, pod:{pod.metadata.name}"
            )
