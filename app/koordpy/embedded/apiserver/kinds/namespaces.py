"""Namespaces: their lifecycle, and which writes each phase allows.

Source: Kubernetes, `plugin/pkg/admission/namespace/lifecycle`, `pkg/registry/core/namespace`.
"""

from collections.abc import Mapping
from typing import Any

from koordpy.api.field_cause import Cause

from ..attributes import Attributes
from ..errors import forbidden, not_found
from ..metadata import dns_label
from ..storage import Table
from .strategy import Strategy

Document = dict[str, Any]

SYSTEM = ("default", "kube-system", "kube-public", "kube-node-lease")
_IMMORTAL = ("default", "kube-system", "kube-public")


class NamespaceStrategy(Strategy):
    """The rules of namespaces."""

    name_rule = staticmethod(dns_label)
    has_status = True
    returns_deleted = True
    selectable = ("status.phase", "name")

    def default(self, document: Document) -> None:
        """Label a namespace with its own name."""
        if name := document["metadata"].get("name"):
            document["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return phase and name."""
        phase = document.get("status", {}).get("phase", "")
        return {"status.phase": phase, "name": document["metadata"]["name"]}

    def prepare_create(self, document: Document) -> None:
        """A new namespace is active, and has the finalizer that empties it."""
        self.default(document)
        document["status"] = {"phase": "Active"}
        finalizers = document.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def holds(self, document: Document) -> bool:
        """A namespace stays until its own finalizers are gone."""
        return bool(document.get("spec", {}).get("finalizers"))

    def terminate(self, document: Document) -> None:
        """The phase becomes Terminating."""
        document.setdefault("status", {})["phase"] = "Terminating"

    def prepare_subresource(self, name: str, new: Document, old: Document) -> Document:
        """`finalize` sets the namespace's own finalizers."""
        result = {**old, "metadata": {**old["metadata"]}, "spec": {**old.get("spec", {})}}
        finalizers = (new.get("spec") or {}).get("finalizers")
        result["spec"].pop("finalizers", None)
        if finalizers:
            result["spec"]["finalizers"] = finalizers
        return result

    def prepare_update(self, new: Document, old: Document) -> None:
        """Finalizers are changed through their own subresource."""
        super().prepare_update(new, old)
        new["spec"] = old.get("spec", {})


def admit(namespaces: Table, attrs: Attributes) -> None:
    """Raise ApiError for writes into a missing or terminating namespace, and for deleting a protected one."""
    if attrs.served.kind == "Namespace" and not attrs.served.group:
        if attrs.operation == "DELETE" and attrs.name in _IMMORTAL:
            raise forbidden("namespaces", "", attrs.name, "this namespace may not be deleted")
        return
    if not attrs.namespace or attrs.operation not in ("CREATE", "UPDATE"):
        return
    record = namespaces.get(attrs.namespace)
    if record is None:
        raise not_found("namespaces", "", attrs.namespace)
    if attrs.operation == "CREATE" and not attrs.subresource and b'"phase":"Terminating"' in record.raw:
        told = f"unable to create new content in namespace {attrs.namespace} because it is being terminated"
        cause = Cause(
            "metadata.namespace", "NamespaceTerminating", f"namespace {attrs.namespace} is being terminated"
        )
        raise forbidden(attrs.served.plural, attrs.served.group, attrs.name, told, [cause])
