"""Set the defaults of a new ElasticQuota: its parent, its tree, its shared weight.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology.go` (`fillQuotaDefaultInformation`).
"""

from typing import ClassVar, Final

from prometheus_client import Gauge

from koordpy.admission.handler import CREATE, Errored, Handle, MutatingHandler, Request
from koordpy.api import extension, resource_list, typed
from koordpy.api.document import Document
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.plugin import PluginArgs
from koordpy.api.quota.info import ROOT
from koordpy.api.quota.reading import KIND, read
from koordpy.api.scheme import DecodeError
from koordpy.cluster.quota.topology import QuotaTopology

SHARED_WEIGHT: Final = Gauge(
    "koord_manager_webhook_quota_shared_weight",
    "The shared weight that a quota got by default.",
    ["elasticquota_name", "resource_name"],
)

_LABELS: Final = ("metadata", "labels")
_WEIGHT: Final = ("metadata", "annotations", extension.ANNOTATION_QUOTA_SHARED_WEIGHT)


class ElasticQuotaDefaultsPlugin(MutatingHandler):
    """The defaulting handler of ElasticQuota creation."""

    name: ClassVar[str] = "ElasticQuota"
    metric_name: ClassVar[str] = "QuotaMetaChecker"
    path: ClassVar[str] = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._topology = handle.cluster.shared(QuotaTopology)
        handle.cluster.store(ElasticQuota).subscribe(on_delete=_forget_shared_weight)

    def mutate(self, request: Request, document: Document) -> None:
        """Set the defaults; a changed object is also normalized to its Go type."""
        if request.operation != CREATE:
            return
        quota = read(document.raw)
        if quota.metadata.name == ROOT:
            return
        self._fill_place(quota, document)
        _fill_shared_weight(quota, document, dry_run=request.dry_run)
        if document.changed:
            document.update(typed.canonical(KIND, document.raw))

    def _fill_place(self, quota: ElasticQuota, document: Document) -> None:
        labels = quota.metadata.labels
        parent_name = labels.get(extension.LABEL_QUOTA_PARENT) or ROOT
        document.set((*_LABELS, extension.LABEL_QUOTA_PARENT), parent_name)
        if labels.get(extension.LABEL_QUOTA_TREE_ID) or parent_name == ROOT:
            return
        parent = self._topology.get(parent_name)
        if parent is None:
            raise Errored(400, f"fill quota {quota.metadata.name} failed, parent not exist")
        if parent.tree_id:
            document.set((*_LABELS, extension.LABEL_QUOTA_TREE_ID), parent.tree_id)


def _fill_shared_weight(quota: ElasticQuota, document: Document, *, dry_run: bool) -> None:
    """Set a weight for every resource of the maximum, and for no other."""
    most = resource_list.from_wire(quota.spec.max)
    text = quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_SHARED_WEIGHT, "")
    if not text:
        is_missing = document.get(("spec", "max")) is None
        document.set(_WEIGHT, resource_list.text(None if is_missing else most))
        for name, amount in () if dry_run else most.items():
            SHARED_WEIGHT.labels(quota.metadata.name, name).set(amount.value())
        return
    try:
        weight = resource_list.parse(text) or {}
    except DecodeError as error:
        raise Errored(400, f"fillDefaultQuotaInfo unmarshal sharedWeight failed:{error}") from None
    if weight.keys() != most.keys():
        document.set(_WEIGHT, resource_list.text({name: weight.get(name, most[name]) for name in most}))


def _forget_shared_weight(quota: ElasticQuota) -> None:
    """Remove the series of a quota that was deleted."""
    SHARED_WEIGHT.remove_by_labels({"elasticquota_name": quota.metadata.name})
