"""The status of one quota: the status writer, with the record of the quota as the vector gives it."""

from types import SimpleNamespace
from typing import Any

from koordpy.api import json_merge, resource_list
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import QuantityError
from koordpy.api.scheme import DecodeError, decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.elasticquota.controllers.status import StatusWriter
from koordpy_plugins.scheduling.elasticquota.state.managers import Managers
from koordpy_plugins.scheduling.elasticquota.state.quota_info import QuotaInfo
from koordpy_plugins.scheduling.elasticquota.state.settings import QuotaSettings

RECORDS = {
    "runtime": "runtime",
    "request": "request",
    "childRequest": "child_request",
    "guaranteed": "guaranteed",
    "allocated": "allocated",
    "nonPreemptibleRequest": "non_preemptible_request",
    "nonPreemptibleUsed": "non_preemptible_used",
    "used": "used",
}


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    cluster = Cluster()
    nobody: Any = SimpleNamespace(name_of=lambda labels, namespace: "")
    managers = Managers(QuotaSettings(), nobody, cluster.clock)
    quota = decode(ElasticQuota, case_in["quota"])
    info = QuotaInfo.of(quota)
    for name, field in RECORDS.items():
        given = case_in["summary"].get(name)
        setattr(info, field, None if given is None else resource_list.from_wire(given))
    managers.default.quotas[info.name] = info
    try:
        patch = StatusWriter(Handle(cluster), SimpleNamespace(managers=managers)).patch_for(quota)
    except (DecodeError, QuantityError):
        return {"error": True}
    return {"changed": True, "patch": patch} if patch else {"changed": False}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    if ours.get("error") != expected.get("error") or ours.get("changed") != expected.get("changed"):
        return False
    return "patch" not in expected or (
        annotations(ours["patch"]) == annotations(expected["patch"])
        and used(case_in["quota"], ours["patch"]) == used(case_in["quota"], expected["patch"])
    )


def annotations(patch: dict[str, Any]) -> dict[str, Any]:
    found = patch.get("metadata", {}).get("annotations", {})
    return {key: resource_list.parse(text) or {} for key, text in found.items()}


def used(quota: dict[str, Any], patch: dict[str, Any]) -> Any:
    """What is stored as used once the patch is applied."""
    status = json_merge.apply(quota, patch).get("status") or {}
    return resource_list.from_wire(status.get("used") or {})
