"""`koordpy quota preview`: which root quotas new or changed ElasticQuotaProfiles would get."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from rich.console import Console
from rich.markup import escape

from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.meta import KubeObject
from koordpy.api.output_model import OutputModel
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers import host
from koordpy.controllers.interface import Handle

from .known import Access, NothingGiven

_CONTROLLER: Final = "quotaprofile"
_PROFILE: Final = ElasticQuotaProfile.__name__
_FACTS: Final[tuple[type[KubeObject], ...]] = (Node, ElasticQuota)


class QuotaPreview(OutputModel):
    """What the controller would write to the quota of a profile."""

    profile: str
    quota: str
    action: Literal["create", "update", "none"]
    patch: dict[str, Any]
    """The quota to create, or the JSON merge patch of the present one."""
    problem: str = ""


async def preview(
    documents: Sequence[Mapping[str, Any]], access: Access, *, offline: bool
) -> list[QuotaPreview]:
    """Preview the profiles among documents, with the nodes and quotas of a cluster and of the documents.

    Raises NothingGiven where there is no profile, DecodeError for an object that cannot be read.
    """
    profiles = [dict(document) for document in documents if document.get("kind") == _PROFILE]
    if not profiles:
        raise NothingGiven(f"no {_PROFILE}: nothing to preview")
    cluster = Cluster()
    if not offline:
        async with access.client() as client:
            for type_ in _FACTS:
                for obj in await client.list_all(type_):
                    cluster.store(type_).put(obj)
    for type_ in _FACTS:
        for document in documents:
            if document.get("kind") == type_.__name__:
                cluster.store(type_).put(decode(type_, dict(document)))
    installed = host.installed()
    handle = Handle(cluster, host.feature_gates(installed))
    controller = installed.make(_CONTROLLER, installed[_CONTROLLER].read_args(None, "args"), handle)
    known = {quota.metadata.key for quota in cluster.store(ElasticQuota)}
    found = []
    for document in profiles:
        metadata = document.get("metadata") or {}
        name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}".removeprefix("/")
        for plan in controller.plan(document):
            action: Literal["create", "update", "none"] = "none"
            if plan.patch:
                action = "update" if plan.subject in known else "create"
            found.append(
                QuotaPreview(
                    profile=name, quota=plan.subject, action=action, patch=plan.patch, problem=plan.problem
                )
            )
    return found


def show(to: Console, found: Sequence[QuotaPreview]) -> None:
    """Print what would be written, as text."""
    for item in found:
        to.print(f"[bold]{escape(item.profile)}[/bold]: quota {escape(item.quota)}: {_told(item)}")
        for path, value in _leaves(item.patch):
            to.print(f"  {escape(path)}: {escape('removed' if value is None else str(value))}")


def _told(item: QuotaPreview) -> str:
    if item.problem:
        return f"[red]{escape(item.problem)}[/red]"
    return {"create": "would be created", "update": "would be changed", "none": "nothing to write"}[
        item.action
    ]


def _leaves(patch: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the values of a document with their paths, without its kind and name."""
    found: list[tuple[str, Any]] = []
    for key, value in patch.items():
        path = f"{prefix}.{key}" if prefix else key
        if path in ("apiVersion", "kind", "metadata.namespace", "metadata.name"):
            continue
        found += _leaves(value, path) if isinstance(value, dict) else [(path, value)]
    return found
