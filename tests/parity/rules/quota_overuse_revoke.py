"""Pods to evict from quotas that use too much, over several cycles of the controller."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from koordpy.api import resource_list
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.membership import QuotaMembership
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.elasticquota.controllers.overuse_revoke import QuotaOverUsedRevokeController
from koordpy_plugins.scheduling.elasticquota.state.managers import Managers
from koordpy_plugins.scheduling.elasticquota.state.settings import QuotaSettings

START = datetime(2000, 1, 2, tzinfo=UTC)


class World:
    """A cluster in memory, the quotas, and the controller."""

    def __init__(self, case_in: dict[str, Any]) -> None:
        args = ElasticQuotaArgs(
            delay_evict_time=case_in["delayEvictSeconds"],
            default_quota_group_max=case_in["defaultQuotaGroupMax"],
            system_quota_group_max=case_in["systemQuotaGroupMax"],
            monitor_all_quotas=True,
        )
        self.clock = FakeClock(START)
        self.cluster = Cluster(clock=self.clock)
        self.quotas, self.pods = self.cluster.store(ElasticQuota), self.cluster.store(Pod)
        settings = QuotaSettings.of(args, FeatureGates(SPECS, case_in.get("gates") or {}))
        membership = QuotaMembership(self.cluster, label_only=settings.label_only)
        self.managers = Managers(settings, membership, self.clock)
        self.quotas.subscribe(on_add=self.managers.add_quota, on_delete=self.managers.delete_quota)
        self.pods.subscribe(on_add=self.managers.add_pod, on_delete=self.managers.delete_pod)
        # Not the shared trees: after a restart, which they equal, pods of a deleted quota count as others'.
        trees = SimpleNamespace(managers=self.managers)
        self.controller = QuotaOverUsedRevokeController(args, Handle(self.cluster), trees)

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        for document in step.get("addQuotas") or ():
            self.quotas.put(decode(ElasticQuota, document))
        for document in step.get("addPods") or ():
            self.pods.put(decode(Pod, document))
        for name in step.get("delPods") or ():
            self.pods.discard(f"d/{name}")
        for name in step.get("delQuotas") or ():
            for quota in [quota for quota in self.quotas if quota.metadata.name == name]:
                self.quotas.discard(quota.metadata.key)
        for manager in self.managers:
            for name, info in manager.quotas.items():
                info.runtime = resource_list.from_wire(step["runtime"].get(name) or {})
        self.clock.advance(step["at"] - self.clock.monotonic())
        revoked = self.controller.due()
        return {
            "revoke": {name: [pod.metadata.name for pod in pods] for name, pods in revoked.items()},
            "lastUnderUsed": self.controller.monitors.last_under_used,
            "used": {name: info.used for manager in self.managers for name, info in manager.quotas.items()},
        }


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    world = World(case_in)
    return {"steps": [world.step(step) for step in case_in["steps"]]}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    return len(ours["steps"]) == len(expected["steps"]) and all(
        map(same_step, ours["steps"], expected["steps"])
    )


def same_step(ours: dict[str, Any], expected: dict[str, Any]) -> bool:
    return (
        ours["revoke"] == expected["revoke"]
        and ours["lastUnderUsed"] == expected["lastUnderUsed"]
        and all(
            not_zero(ours["used"].get(name, {})) == not_zero(resource_list.from_wire(used))
            for name, used in expected["used"].items()
        )
    )


def not_zero(amounts: resource_list.Quantities) -> resource_list.Quantities:
    return {name: amount for name, amount in amounts.items() if not amount.is_zero}
