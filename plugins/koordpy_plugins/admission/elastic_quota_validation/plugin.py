"""Keep the tree of ElasticQuotas consistent: validate creations, updates and deletions against it.

A valid change updates the tree at once, so that the next request is validated against it; a dry run does not
change the tree. Source: Koordinator, `pkg/webhook/elasticquota/quota_topology.go` and
`pkg/webhook/elasticquota/validating`.
"""

from typing import ClassVar

from koordpy.admission.handler import CREATE, DELETE, UPDATE, Errored, Handle, Request, ValidatingHandler
from koordpy.api.document import Document
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.plugin import PluginArgs
from koordpy.api.quota import validation
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM, QuotaInfo, bound_namespaces
from koordpy.api.quota.reading import is_same_place, read, read_bytes
from koordpy.api.quota.validation import InvalidQuota
from koordpy.api.scheme import DecodeError
from koordpy.cluster.quota.pods import QuotaPods
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.cluster.quota.tree_check import TreeCheck

NO_CONTENT = "there is no content to decode"


class ElasticQuotaValidationPlugin(ValidatingHandler):
    """The validating handler of ElasticQuota admission."""

    name: ClassVar[str] = "ElasticQuota"
    metric_name: ClassVar[str] = "QuotaMetaChecker"
    path: ClassVar[str] = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._topology = handle.cluster.shared(QuotaTopology)
        self._pods = QuotaPods(handle.cluster)
        self._tree = TreeCheck(self._topology, self._pods, handle.gates)

    def validate(self, request: Request) -> None:
        """Validate a change; apply it to the tree if it is valid."""
        document = request.document
        try:
            if request.operation == DELETE:
                self._delete(request)
            elif document is not None and request.operation == CREATE:
                self._create(read(document.raw), request)
            elif document is not None and request.operation == UPDATE:
                self._update(document, request)
        except InvalidQuota as error:
            raise Errored(400, str(error)) from None

    def _create(self, quota: ElasticQuota, request: Request) -> None:
        info = QuotaInfo.of(quota)
        if self._topology.get(info.name) is not None:
            raise InvalidQuota(f"AddQuota quota already exist:{info.name}")
        for namespace in info.namespaces:
            owner = self._topology.by_namespace.get(namespace)
            if owner is not None:
                raise InvalidQuota(
                    f"AddQuota quota {info.name}'s annotation namespace {namespace} is already bound to "
                    f"quota {owner}"
                )
        validation.check(quota, info)
        self._tree.check(None, info, ())
        if not request.dry_run:
            self._topology.add(info)

    def _update(self, document: Document, request: Request) -> None:
        try:
            if not request.raw_old_object:
                raise DecodeError(NO_CONTENT)
            old_document, old_quota = read_bytes(request.raw_old_object)
        except DecodeError as error:
            raise InvalidQuota(f"failed to get quota from old object, err:{error}") from None
        if is_same_place(old_document, document.raw):
            return
        quota = read(document.raw)
        info = QuotaInfo.of(quota)
        if info.name in (SYSTEM, ROOT):
            raise InvalidQuota(f"invalid quota {info.name}")
        for namespace in info.namespaces:
            owner = self._topology.by_namespace.get(namespace)
            if owner not in (None, info.name):
                raise InvalidQuota(
                    f"UpdadteQuota, quota {info.name} update namespaces, but namespace {namespace} is "
                    f"already bound to quota {owner}"
                )
        known = self._topology.get(info.name)
        if known is None:
            raise InvalidQuota(f"UpdateQuota quota not exist in quotaInfoMap:{info.name}")
        bound_before = bound_namespaces(old_quota)
        validation.check(quota, info)
        self._tree.check(known, info, bound_before)
        if not request.dry_run:
            self._topology.replace(info, bound_before)

    def _delete(self, request: Request) -> None:
        raw = request.raw_old_object
        name = read_bytes(raw)[1].metadata.name if raw else ""
        if name in (SYSTEM, ROOT, DEFAULT):
            raise InvalidQuota(f"can not delete quotaGroup :{name}")
        info = self._topology.get(name)
        if info is None:
            if name in self._topology.unconfirmed():
                # kube-apiserver deletes anew, validation included, if the quota changed in between.
                return
            raise InvalidQuota(f"not found quota:{name}")
        children = self._topology.children.get(name)
        if children is None:
            raise InvalidQuota(f"BUG quotaMap and quotaTree information out of sync, losed :{name}")
        if children:
            raise InvalidQuota(f"delete quota failed, quota {name} has {len(children)} child quotas")
        if pods := self._pods.labelled(name):
            shown = [*pods[:2], "..."] if len(pods) > 2 else pods
            raise InvalidQuota(
                f"delete quota failed, quota {name} has {len(pods)} child pods: {', '.join(shown)}"
            )
        if not request.dry_run:
            self._topology.remove(name, info.parent_name, info.namespaces)
