"""The REST API of quotas, as Koordinator answers it; reading refreshes nothing.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/plugin_service.go` and `core/quota_summary.go`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from koordpy.api.quota.info import ROOT
from koordpy.api.resource_list import Quantities

from .state.quota_info import QuotaInfo
from .state.source import Trees

_LISTS: Final[Mapping[str, str]] = {
    "max": "max",
    "min": "min",
    "autoScaleMin": "auto_scale_min",
    "used": "used",
    "nonPreemptibleUsed": "non_preemptible_used",
    "request": "request",
    "nonPreemptibleRequest": "non_preemptible_request",
    "sharedWeight": "shared_weight",
    "runtime": "runtime",
    "childRequest": "child_request",
    "allocated": "allocated",
    "guaranteed": "guaranteed",
    "selfUsed": "self_used",
    "selfNonPreemptibleUsed": "self_non_preemptible_used",
    "selfRequest": "self_request",
    "selfNonPreemptibleRequest": "self_non_preemptible_request",
}
"""The lists of a summary, each with that of a quota's record."""


def summary(info: QuotaInfo, tree: str, *, with_pods: bool) -> dict[str, Any]:
    """Return the record of a quota as a document."""
    document: dict[str, Any] = {
        "name": info.name,
        "parentName": info.parent_name,
        "isParent": info.is_parent,
        "runtimeVersion": info.runtime_version,
        "allowLentResource": info.allow_lent_resource,
        "tree": tree,
        **{name: _wire(getattr(info, field)) for name, field in _LISTS.items()},
    }
    if with_pods and info.pods:
        document["podCache"] = {
            key: {"isAssigned": info.pods[key].is_assigned, "resource": _wire(info.pods[key].resource)}
            for key in sorted(info.pods)
        }
    return document


def _wire(amounts: Quantities) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


class QuotaService:
    """The endpoints."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """Return the endpoints by path."""
        return {"quotas": self.quotas, "quotas/{name}": self.quota}

    def quotas(self, tree: str = "", includePods: str = "") -> dict[str, Any]:  # noqa: N803 - as in the query
        """Return all quotas, or those of one tree, by name; the roots of trees are left out."""
        found = {
            info.name: summary(info, manager.tree, with_pods=includePods == "true")
            for manager in self._trees.managers
            if not tree or manager.tree == tree
            for info in manager.quotas.values()
            if info.name != ROOT
        }
        return {name: found[name] for name in sorted(found)}

    def quota(self, name: str, includePods: str = "") -> dict[str, Any]:  # noqa: N803 - as in the query
        """Return a quota. Raises LookupError if there is none of that name."""
        manager = self._trees.managers.of_quota(name)
        info = manager.get(name)
        if info is None:
            raise LookupError(f"cannot find quota {name}")
        return summary(info, manager.tree, with_pods=includePods == "true")
