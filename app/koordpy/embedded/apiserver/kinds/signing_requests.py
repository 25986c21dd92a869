"""CertificateSigningRequests: approved and denied by clients. There is no signer.

Source: Kubernetes, `pkg/registry/certificates/certificates`, `pkg/apis/certificates/validation`.
"""

from collections.abc import Iterable
from typing import Any

from koordpy.api.field_cause import Cause, invalid_value, required

from ..attributes import ADMINISTRATOR
from .strategy import WithStatus

Document = dict[str, Any]


class SigningRequestStrategy(WithStatus):
    """The rules of certificate signing requests."""

    counts_generation = False
    selectable = ("spec.signerName",)

    def fields(self, document: Document) -> dict[str, str]:
        """Return the signer."""
        return {"spec.signerName": (document.get("spec") or {}).get("signerName", "")}

    def default(self, document: Document) -> None:
        """There is always a spec and a status."""
        document.setdefault("spec", {})
        document.setdefault("status", {})

    def prepare_create(self, document: Document) -> None:
        """A new request is neither approved nor denied; the client does not say who made it."""
        document["status"] = {}
        document["spec"].pop("extra", None)
        document["spec"].update(ADMINISTRATOR)

    def prepare_update(self, new: Document, old: Document) -> None:
        """The spec stays."""
        super().prepare_update(new, old)
        new["spec"] = old["spec"]

    def prepare_subresource(self, name: str, new: Document, old: Document) -> Document:
        """`approval` changes the conditions."""
        status = {**(old.get("status") or {})}
        conditions = (new.get("status") or {}).get("conditions")
        if conditions is not None:
            status["conditions"] = conditions
        return {**old, "metadata": new["metadata"], "status": status}

    def validate(self, document: Document) -> Iterable[Cause]:
        """Request, signer and usages are required; a request is not both approved and denied."""
        spec = document["spec"]
        for name in ("request", "signerName", "usages"):
            if not spec.get(name):
                yield required(f"spec.{name}")
        conditions = (document.get("status") or {}).get("conditions") or []
        types = {condition.get("type") for condition in conditions}
        if {"Approved", "Denied"} <= types:
            told = "Approved and Denied conditions are mutually exclusive"
            yield invalid_value("status.conditions", sorted(types), told)
