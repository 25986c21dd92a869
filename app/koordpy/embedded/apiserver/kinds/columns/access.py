"""The columns of roles, their bindings, and certificate signing requests."""

from datetime import datetime
from typing import Any

from .column import AGE, NAME, Cell, Column, duration, path

Document = dict[str, Any]


def _of_binding() -> tuple[Column, ...]:
    def role(document: Document, now: datetime) -> str:
        found = document.get("roleRef") or {}
        return f"{found.get('kind', '')}/{found.get('name', '')}"

    def subjects(kind: str) -> Cell:
        def cell(document: Document, now: datetime) -> str:
            found = [item for item in document.get("subjects") or () if item.get("kind") == kind]
            space = kind == "ServiceAccount"
            names = (
                (f"{item.get('namespace', '')}/" if space else "") + item.get("name", "") for item in found
            )
            return ", ".join(names)

        return cell

    return (
        NAME,
        Column("Role", role),
        AGE,
        Column("Users", subjects("User"), priority=1),
        Column("Groups", subjects("Group"), priority=1),
        Column("ServiceAccounts", subjects("ServiceAccount"), priority=1),
    )


def _of_signing_request() -> tuple[Column, ...]:
    def requested(document: Document, now: datetime) -> str:
        seconds = document.get("spec", {}).get("expirationSeconds")
        return duration(seconds) if seconds is not None else "<none>"

    def state(document: Document, now: datetime) -> str:
        status = document.get("status", {})
        types = {condition.get("type") for condition in status.get("conditions") or ()}
        text = next((one for one in ("Denied", "Approved") if one in types), "Pending")
        failed = ",Failed" if "Failed" in types else ""
        return f"{text}{failed}{',Issued' if status.get('certificate') else ''}"

    return (
        NAME,
        AGE,
        Column("SignerName", path("spec", "signerName")),
        Column("Requestor", path("spec", "username", default="")),
        Column("RequestedDuration", requested),
        Column("Condition", state),
    )


def of_access() -> dict[str, tuple[Column, ...]]:
    """The columns of these kinds."""
    created = (NAME, Column("Created At", path("metadata", "creationTimestamp"), "date"))
    return {
        "CertificateSigningRequest": _of_signing_request(),
        "ClusterRole": created,
        "ClusterRoleBinding": _of_binding(),
        "Role": created,
        "RoleBinding": _of_binding(),
    }
