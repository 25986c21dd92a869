"""Hook plugins of quotas: what they are called with, what they see, and what their answers do.

The line's hook plugin counts pods: it refuses pods of a quota that has as many as its annotation says, and
pods with `factoryArgs` in their name, and notes the number in an annotation of the quota.
"""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from koordpy.api import resource_list
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import Quantity
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.quota_hooks import QuotaHook, QuotaReader, QuotaRecord, QuotaUpdateState
from koordpy_plugins.scheduling.elasticquota.controllers.status import StatusWriter
from koordpy_plugins.scheduling.elasticquota.state.amounts import text
from koordpy_plugins.scheduling.elasticquota.state.hooks import HookError, register
from koordpy_plugins.scheduling.elasticquota.state.quota_info import QuotaInfo

from . import elasticquota_runtime as runtime

LIMIT = "example.com/pods"
SHOWN = "example.com/pods-used-"
LISTS = {
    "max": "max",
    "min": "min",
    "weight": "shared_weight",
    "used": "used",
    "request": "request",
    "selfUsed": "self_used",
    "childRequest": "child_request",
    "npUsed": "non_preemptible_used",
}

Entry = dict[str, Any]
LOG: list[Entry] = []


class PodCounter(QuotaHook):
    """Limits and counts the pods of quotas, and logs how it is called."""

    def __init__(self, reader: QuotaReader, key: str, args: str) -> None:
        if args.startswith("bad"):
            raise ValueError(f"args {args}")
        self.reader, self.key, self.refused = reader, key, args
        self.limits: dict[str, str] = {}
        self.pods: dict[str, set[str]] = {}
        self.resets = 0

    def is_quota_updated(self, old: QuotaRecord, new: QuotaRecord, quota: ElasticQuota) -> bool:
        answer = self.limits.get(quota.metadata.name, "") != quota.metadata.annotations.get(LIMIT, "")
        self.log("is_quota_updated", quota, old=info(old), new=info(new), answer=answer)
        return answer

    def pre_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        self._log_update("pre_quota_update", old, new, quota, state)
        state.storage[self.key] = version(quota)

    def post_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        if new is None:
            self.limits.pop(quota.metadata.name, None)
        else:
            self.limits[quota.metadata.name] = quota.metadata.annotations.get(LIMIT, "")
        self._log_update("post_quota_update", old, new, quota, state)

    def _log_update(
        self,
        call: str,
        old: QuotaRecord | None,
        new: QuotaRecord | None,
        quota: ElasticQuota,
        state: QuotaUpdateState,
    ) -> None:
        held = sorted(f"{key}={value}" for key, value in state.storage.items())
        view = self.view(quota.metadata.name)
        self.log(call, quota, old=info(old), new=info(new), held=held, view=view, batch=self.resets)

    def on_pod_updated(self, quota_name: str, old: Pod | None, new: Pod | None) -> None:
        pods = self.pods.setdefault(quota_name, set())
        if old is not None:
            pods.discard(old.metadata.key)
        if new is not None:
            pods.add(new.metadata.key)
        self.log(
            "on_pod_update",
            quota_name,
            old=None if old is None else version(old),
            new=None if new is None else version(new),
            view=self.view(quota_name),
        )

    def update_quota_status(self, quota: ElasticQuota, updated: ElasticQuota | None) -> ElasticQuota | None:
        base = updated or quota
        own, shown = SHOWN + self.key, str(len(self.pods.get(quota.metadata.name, ())))
        changed, used = list[str](), ""
        if updated is not None:
            before = quota.metadata.annotations
            changed = [
                key for key, value in updated.metadata.annotations.items() if before.get(key, "") != value
            ]
            used = text(resource_list.from_wire(updated.status.used))
        changed = sorted(key for key in changed if key != own)
        self.log("update_quota_status", quota, changed=changed, used=used, hasNew=updated is not None)
        if base.metadata.annotations.get(own, "") == shown:
            return None
        annotations = {**base.metadata.annotations, own: shown}
        return msgspec.structs.replace(
            base, metadata=msgspec.structs.replace(base.metadata, annotations=annotations)
        )

    def check_pod(self, quota_name: str, pod: Pod) -> str:
        limit, count = self.limits.get(quota_name, ""), len(self.pods.get(quota_name, ()))
        answer = ""
        if limit and count >= int(limit):
            answer = f"quota {quota_name} has {count} of {limit} pods"
        if self.refused and self.refused in pod.metadata.name:
            answer = f"pod {pod.metadata.name} is refused"
        self.log("check_pod", quota_name, pod=version(pod), answer=answer or None)
        return answer

    def view(self, name: str) -> Entry:
        children = [child.name for child in self.reader.children_of(name)]
        return {"own": info(self.reader.get(name)), "children": children}

    def log(self, call: str, quota: ElasticQuota | str, **seen: Any) -> None:
        name = quota if isinstance(quota, str) else version(quota)
        LOG.append({"hook": self.key, "call": call, "quota": name} | seen)


class BatchPodCounter(PodCounter):
    """One that wants to know of resets."""

    def on_batch_reset_begin(self) -> None:
        self.resets += 1
        LOG.append({"hook": self.key, "call": "on_batch_reset_begin"})

    def on_batch_reset_end(self) -> None:
        self.resets -= 1
        LOG.append({"hook": self.key, "call": "on_batch_reset_end"})


register("counter", PodCounter)
register("batch-counter", BatchPodCounter)


def version(found: ElasticQuota | Pod) -> str:
    return f"{found.metadata.name}@{found.metadata.resource_version}"


def info(found: QuotaRecord | None) -> Entry | None:
    if found is None:
        return None
    assert isinstance(found, QuotaInfo)
    shown: Entry = {key: amounts(getattr(found, slot)) for key, slot in LISTS.items()}
    return {key: value for key, value in shown.items() if value} | {
        "name": found.name,
        "parent": found.parent_name,
        "isParent": found.is_parent,
        "lent": found.allow_lent_resource,
        "pods": sorted(found.pods),
    }


def amounts(found: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in found.items()}


class World(runtime.World):
    """A plugin with hook plugins, which may be asked for pods and for what it writes to quotas."""

    _begun = False

    def apply(self, event: Mapping[str, Any]) -> None:
        if not self._begun:
            LOG.clear()
            self._begun = True
        since = len(LOG)
        match event["op"]:
            case "check":
                pod = decode(Pod, event["pod"])
                _, status = self.plugin.pre_filter(CycleState(), pod, self.plugin.handle.nodes.all())
                LOG.append({"check": pod.metadata.name, "code": status.code.label, "reason": status.message})
            case "status":
                writer = StatusWriter(self.plugin.handle, SimpleNamespace(managers=self.managers))
                patch: Any = None
                for quota in self.quotas:
                    if quota.metadata.name == event["quota"]:
                        patch = writer.patch_for(quota) or None
                LOG.append({"status": event["quota"], "patch": patch})
            case "replaceQuotas":
                self.managers.replace_quotas(list(self.quotas))
                LOG[since:] = [{"op": "replaceQuotas", "calls": LOG[since:]}]
                for name in sorted(self.nodes):
                    self.managers.add_node(self.nodes[name])
                for name in sorted(self.pods):
                    self.managers.add_pod(self.pods[name])
            case "migrate":
                super().apply(event)
                LOG[since:] = [{"op": "migrate", "calls": LOG[since:]}]
            case _:
                super().apply(event)


def accepts(tag: str | None, case: Mapping[str, Any]) -> bool:
    return not runtime.depends_on_chance(case)


def run(case: dict[str, Any], tag: str | None) -> object:
    LOG.clear()
    try:
        world = World(case)
    except HookError as error:
        return {"error": str(error)}
    answer = runtime.answer(world, case)
    return answer | {"log": list(LOG)}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    if "panic" in expected:
        return True
    if "error" in expected or "error" in ours:
        return bool(ours == expected)
    return runtime.agree(ours, expected, case) and steps(ours["log"]) == steps(expected["log"])


def steps(log: list[Entry]) -> list[Any]:
    """Return what was logged with amounts by value, less questions that Koordinator asks twice."""
    shown: list[Any] = []
    asked: list[Any] = []
    for entry in map(comparable, log):
        if entry.get("call") != "is_quota_updated":
            asked.clear()
        elif entry in asked:
            continue
        else:
            asked.append(entry)
        shown.append(entry)
    return shown


def comparable(entry: Entry) -> Entry:
    if "calls" in entry:
        return {"op": entry["op"], "calls": in_order(entry["calls"])}
    shown = {key: value for key, value in entry.items() if value not in (None, "", [], {}, False, 0)}
    for key in ("old", "new"):
        if isinstance(entry.get(key), dict):
            shown[key] = by_value(entry[key])
    if "view" in entry:
        # Which children a quota without a record has, depends on what was there before in Koordinator.
        own, children = entry["view"]["own"], entry["view"]["children"]
        shown["view"] = [by_value(own), children] if own else []
    if entry.get("patch"):
        shown["patch"] = patched(entry["patch"])
    return shown


def by_value(found: Entry) -> Entry:
    return {key: runtime.value(each) if key in LISTS else each for key, each in found.items() if each}


def patched(patch: Entry) -> Entry:
    annotations = patch.get("metadata", {}).get("annotations", {})
    used = patch.get("status", {}).get("used") or {}
    return {
        "annotations": {
            key: found if key.startswith("example.com") else resource_list.parse(found) or {}
            for key, found in annotations.items()
        },
        "used": {key: found and resource_list.from_wire({key: found}) for key, found in used.items()},
    }


def in_order(calls: list[Entry]) -> list[str]:
    """Sort what Koordinator does in no order."""
    return sorted(json.dumps(comparable(call), sort_keys=True, default=str) for call in calls)
