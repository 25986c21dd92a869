"""What a controller makes of a job that another process, or an earlier pass, left at some step."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy import data
from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.reconcile import ReconcileError
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.migrationcontroller.eviction_step import ANNOTATION_EVICTING
from koordpy_plugins.descheduling.migrationcontroller.evictions import EvictionFailed
from koordpy_plugins.descheduling.migrationcontroller.reconciler import Reconciler
from tests.faults.migrating import NoLimit

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Evictions:
    """Keeps the UIDs of pods to evict, and fails if it is to."""

    def __init__(self) -> None:
        self.uids: list[str] = []
        self.fails: EvictionFailed | None = None
        self.asked = False
        self.refusal: str | None = None

    def admit(self) -> None:
        """Allow any number."""

    def is_requested(self, job: PodMigrationJob, pod: Pod) -> bool:
        """Whether the pod shows that it was asked to leave."""
        return self.asked

    async def failure(self, job: PodMigrationJob, pod: Pod) -> str | None:
        """Whether the pod refuses to leave."""
        return self.refusal

    async def evict(self, job: PodMigrationJob, pod: Pod, options: Mapping[str, Any] | None) -> None:
        """Keep the pod, or fail."""
        self.uids.append(pod.metadata.uid)
        if self.fails is not None:
            raise self.fails


class Scene:
    """A running job that evicts directly."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock, rng=random.Random(1))
        self.client = Client(ServerChannel(self.server), attempts=1)
        self.cluster = Cluster(self.clock)
        self.evictions = Evictions()
        self.controller = self.another()

    def another(self, identity: str = "me") -> Reconciler:
        """Return the controller of another process."""
        return Reconciler(
            self.cluster,
            self.client,
            None,
            self.clock,
            evictor=self.evictions,
            limiter=NoLimit(),
            identity=identity,
        )

    async def pod(self) -> str:
        await self.server.load()
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        return str((await self.client.create_raw(resource_of(Pod), "default", document))["metadata"]["uid"])

    async def job(self, uid: str, annotations: Mapping[str, str]) -> None:
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {"name": "j", "annotations": dict(annotations)},
            "spec": {
                "mode": "EvictDirectly",
                "podRef": {"namespace": "default", "name": "p", "uid": uid},
            },
        }
        await self.client.create_raw(resource_of(PodMigrationJob), "", document)
        await self.client.patch_status(PodMigrationJob, "", "j", {"status": {"phase": "Running"}})

    async def go_on(self, controller: Reconciler | None = None, *, sees: bool = True) -> PodMigrationJob:
        """Reconcile the job with what the server has; return the job."""
        if sees:
            for type_ in (PodMigrationJob, Pod):
                self.cluster.store(type_).replace(await self.client.list_all(type_))
        await (controller or self.controller).reconcile("j")
        return await self.client.get(PodMigrationJob, "", "j")


async def gone(it: Scene) -> None:
    await it.client.delete(Pod, "default", "p", grace_period_seconds=0)


async def test_a_pod_is_noted_on_the_job_before_its_eviction() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    it.evictions.fails = EvictionFailed("killed", certain=False)
    with pytest.raises(ReconcileError, match="killed"):
        await it.go_on()
    found = await it.client.get(PodMigrationJob, "", "j")
    assert found.metadata.annotations[ANNOTATION_EVICTING] == uid
    assert found.condition("Eviction") is None


async def test_a_pod_that_is_gone_was_evicted_if_it_is_noted_on_the_job() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {ANNOTATION_EVICTING: uid})
    await gone(it)
    assert (await it.go_on()).status.phase == "Succeeded"
    assert it.evictions.uids == []


async def test_a_pod_that_is_gone_otherwise_is_missing() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    await gone(it)
    found = await it.go_on()
    assert (found.status.phase, found.status.reason) == ("Failed", "MissingPod")


async def test_a_successor_is_not_evicted_for_a_pod_that_was() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {ANNOTATION_EVICTING: uid})
    await gone(it)
    await it.pod()
    assert (await it.go_on()).status.phase == "Succeeded"
    assert it.evictions.uids == []


async def test_a_noted_pod_that_runs_on_is_evicted_now() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {ANNOTATION_EVICTING: uid})
    found = (await it.go_on()).condition("Eviction")
    assert found is not None
    assert (found.status, found.reason) == ("False", "Evicting")
    assert it.evictions.uids == [uid]


async def test_a_pod_that_ends_already_is_not_evicted_again() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    await it.client.delete(Pod, "default", "p", grace_period_seconds=30)
    found = (await it.go_on()).condition("Eviction")
    assert found is not None
    assert found.reason == "Evicting"
    assert it.evictions.uids == []


async def test_a_pod_that_was_asked_to_leave_is_not_asked_again() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {ANNOTATION_EVICTING: uid})
    it.evictions.asked = True
    found = (await it.go_on()).condition("Eviction")
    assert found is not None
    assert found.reason == "Evicting"
    assert it.evictions.uids == []


async def test_a_pod_whose_eviction_was_refused_and_that_goes_by_itself_is_missing() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    it.evictions.fails = EvictionFailed("refused")
    with pytest.raises(ReconcileError):
        await it.go_on()
    await gone(it)
    assert (await it.go_on()).status.reason == "MissingPod"


async def test_an_eviction_without_an_answer_is_repeated_only_if_the_pod_runs_on() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    it.evictions.fails = EvictionFailed("no answer", certain=False)
    with pytest.raises(ReconcileError):
        await it.go_on()
    await gone(it)
    assert (await it.go_on()).status.phase == "Succeeded"
    assert it.evictions.uids == [uid]


async def test_a_pod_that_the_store_lacks_knowledge_of_is_read_from_the_server() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {ANNOTATION_EVICTING: uid})
    for type_ in (PodMigrationJob, Pod):
        it.cluster.store(type_).replace(await it.client.list_all(type_))
    await gone(it)
    assert (await it.go_on(sees=False)).status.phase == "Succeeded"
    assert it.evictions.uids == []


async def test_of_two_controllers_with_old_knowledge_one_evicts() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    await it.go_on()
    old = Cluster(it.clock)
    for type_ in (PodMigrationJob, Pod):
        old.store(type_).replace(await it.client.list_all(type_))
    stale = it.cluster.store(PodMigrationJob).get("", "j")
    assert stale is not None
    old.store(PodMigrationJob).put(stale)
    it.cluster = old
    with pytest.raises(Exception, match=r"Conflict|meanwhile|modified"):
        await it.go_on(it.another(), sees=False)
    assert it.evictions.uids == [uid]


async def test_an_old_version_of_a_job_is_not_worked_on() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    await it.go_on()
    await it.go_on(sees=False)
    assert it.evictions.uids == [uid]


@pytest.mark.parametrize(("by", "evicted"), [({}, True), ("me", True), ("another", False)])
async def test_a_job_of_another_controller_is_left_alone(by: Any, evicted: bool) -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {"koordinator.sh/job-created-by": by} if by else {})
    await it.go_on()
    assert bool(it.evictions.uids) is evicted


async def test_a_job_whose_pod_refuses_to_leave_fails_unless_the_pod_ends() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    assert (await it.go_on()).status.phase == "Running"
    it.evictions.refusal = "no responder could evict it"
    found = await it.go_on()
    assert (found.status.phase, found.status.reason) == ("Failed", "FailedEvict")
    assert found.status.message == "no responder could evict it"


async def test_a_pod_that_ends_after_a_refusal_is_waited_for() -> None:
    it = Scene()
    uid = await it.pod()
    await it.job(uid, {})
    await it.go_on()
    it.evictions.refusal = "no responder could evict it"
    await it.client.delete(Pod, "default", "p", grace_period_seconds=30)
    assert (await it.go_on()).status.phase == "Running"
