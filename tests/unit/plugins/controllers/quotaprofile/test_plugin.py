"""The quota profile controller: when it writes, what it reports, and when it tries again."""

from typing import Any

import pytest

from koordpy.api import json_merge
from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.meta import KubeObject
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, Conflict, ServerError
from koordpy.controllers.interface import Handle
from koordpy.controllers.reconcile import ReconcileError
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.controllers.quotaprofile.plugin import QuotaProfileController

TREE_ID = "quota.scheduling.koordinator.sh/tree-id"
PROFILE: dict[str, Any] = {
    "metadata": {"name": "profile1", "namespace": "kube-system", "resourceVersion": "5"},
    "spec": {"quotaName": "root-a", "nodeSelector": {}},
}


class World:
    """A cluster in memory and the controller, whose writes are taken down and shown by the stores."""

    def __init__(self, profile: dict[str, Any] = PROFILE) -> None:
        self.cluster = Cluster()
        self.documents: dict[type[KubeObject], dict[str, Any]] = {}
        self.writes: list[tuple[str, Any]] = []
        self.error: ApiError | None = None
        handle = Handle(self.cluster, FeatureGates({}), connected=self)  # type: ignore[arg-type]
        self.events: list[str] = []
        handle.report = lambda _, reason, message: self.events.append(f"{reason} {message}")  # type: ignore[method-assign, assignment, misc]
        self.controller = QuotaProfileController(NoArgs(), handle)
        self.controller.setup()
        self.put(ElasticQuotaProfile, profile)
        self.node("n1", "4")

    def put(self, type_: type[KubeObject], document: dict[str, Any]) -> None:
        self.documents[type_] = document
        self.cluster.store(type_).put(decode(type_, document))

    def node(self, name: str, cpu: str) -> None:
        self.cluster.store(Node).put(
            decode(Node, {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu}}})
        )

    async def create_raw(self, resource: Any, namespace: str, document: dict[str, Any]) -> None:
        self._fails()
        self.writes.append(("create", document))
        self.put(ElasticQuota, document)

    async def patch(self, type_: type[KubeObject], namespace: str, name: str, patch: dict[str, Any]) -> None:
        self._fails()
        self.writes.append((type_.__name__, patch))
        self.put(type_, json_merge.apply(self.documents[type_], patch))

    def _fails(self) -> None:
        if self.error is not None:
            raise self.error

    def queued(self) -> list[str]:
        names = []
        while (name := self.controller.queue.pop()) is not None:
            self.controller.queue.done(name)
            names.append(name)
        return names

    def quota(self) -> ElasticQuota:
        found = self.cluster.store(ElasticQuota).get("kube-system", "root-a")
        assert found is not None
        return found


async def test_a_profile_gets_a_tree_id_and_a_quota_once() -> None:
    world = World()
    assert world.queued() == ["kube-system/profile1"]
    assert await world.controller.reconcile("kube-system/profile1") == 10
    assert [verb for verb, _ in world.writes] == ["ElasticQuotaProfile", "create"]
    assert world.writes[0][1] == {
        "metadata": {"labels": {TREE_ID: "9816276314407088615"}, "resourceVersion": "5"}
    }
    assert await world.controller.reconcile("kube-system/profile1") == 10
    assert len(world.writes) == 2
    assert world.queued() == []  # its own label is no reason to reconcile again


async def test_a_change_of_the_nodes_is_written_at_the_next_time() -> None:
    world = World()
    await world.controller.reconcile("kube-system/profile1")
    world.node("n2", "2")
    await world.controller.reconcile("kube-system/profile1")
    assert world.writes[-1][0] == "ElasticQuota"
    assert world.quota().spec.min == {"cpu": "6", "memory": "0"}


async def test_a_failed_write_of_the_quota_is_an_event_and_repeated_after_two_seconds() -> None:
    world = World({**PROFILE, "metadata": {**PROFILE["metadata"], "labels": {TREE_ID: "1"}}})
    world.error = ServerError("POST", "/x", 500, "InternalError", "boom", {}, None)
    assert await world.controller.reconcile("kube-system/profile1") == 2
    assert world.events == ["CreateQuotaFailed failed to create quota, err: boom"]
    world.error = None
    await world.controller.reconcile("kube-system/profile1")
    world.node("n2", "2")
    world.error = ServerError("PATCH", "/x", 500, "InternalError", "boom", {}, None)
    assert await world.controller.reconcile("kube-system/profile1") == 2
    assert world.events[1:] == ["UpdateQuotaFailed failed to update quota, err: boom"]


async def test_a_tree_id_that_cannot_be_written_stops_the_reconciliation() -> None:
    world = World()
    world.error = Conflict("PATCH", "/x", 409, "Conflict", "changed", {}, None)
    with pytest.raises(Conflict):
        await world.controller.reconcile("kube-system/profile1")
    assert world.events == []


async def test_an_invalid_selector_is_an_error_that_names_the_profile() -> None:
    selector = {"matchExpressions": [{"key": "pool", "operator": "Near"}]}
    world = World({**PROFILE, "spec": {"quotaName": "root-a", "nodeSelector": selector}})
    with pytest.raises(ReconcileError, match=r"kube-system/profile1.*Near"):
        await world.controller.reconcile("kube-system/profile1")
    assert [verb for verb, _ in world.writes] == ["ElasticQuotaProfile"]


async def test_a_deleted_profile_leaves_its_quota() -> None:
    world = World()
    await world.controller.reconcile("kube-system/profile1")
    world.cluster.store(ElasticQuotaProfile).discard("kube-system/profile1")
    assert await world.controller.reconcile("kube-system/profile1") is None
    assert world.quota() is not None


def test_a_change_of_the_spec_or_the_annotations_is_queued_at_once() -> None:
    world = World()
    world.queued()
    world.put(ElasticQuotaProfile, {**PROFILE, "spec": {**PROFILE["spec"], "resourceRatio": "0.5"}})
    assert world.queued() == ["kube-system/profile1"]
    world.put(
        ElasticQuotaProfile,
        {
            **world.documents[ElasticQuotaProfile],
            "metadata": {**PROFILE["metadata"], "annotations": {"a": "b"}},
        },
    )
    assert world.queued() == ["kube-system/profile1"]


async def test_a_plan_shows_the_quota_without_writing() -> None:
    world = World()
    [plan] = world.controller.plan({"kind": "ElasticQuotaProfile", **PROFILE})
    assert plan.subject == "kube-system/root-a"
    assert plan.patch["spec"]["min"] == {"cpu": "4", "memory": "0"}
    assert plan.patch["metadata"]["labels"][TREE_ID] == "9816276314407088615"
    assert world.writes == []
    await world.controller.reconcile("kube-system/profile1")
    [plan] = world.controller.plan({"kind": "ElasticQuotaProfile", **PROFILE})
    assert plan.patch == {}
