"""The eviction policies, on an API server of this process."""

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from koordpy.api.core import Event, ObjectReference, Pod, PodDisruptionBudget
from koordpy.api.meta import ObjectMeta
from koordpy.api.pod_migration_job import (
    ANNOTATION_SOFT_EVICTION,
    LABEL_EVICT_POLICY,
    PodMigrationJob,
    PodMigrationJobSpec,
)
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import JSON
from koordpy.cluster.events import Recorder
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.lib.http1 import Response
from koordpy.lib.token_bucket import TokenBucket
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.migrationcontroller.eviction_requests import RESOURCE, EvictionRequests
from koordpy_plugins.descheduling.migrationcontroller.evictions import (
    EvictionFailed,
    PodEvictions,
    Policy,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)

ANNOTATIONS: Mapping[str, str] = {
    "koordinator.sh/evict-reason": 'a "hot" node',
    "koordinator.sh/evict-trigger": "LowNodeLoad",
}

EVICTION_REQUESTS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "evictionrequests.lifecycle.k8s.io"},
    "spec": {
        "group": "lifecycle.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "evictionrequests", "singular": "evictionrequest", "kind": "EvictionRequest"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


class Listening(ServerChannel):
    """A channel that keeps the writes."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.writes: list[tuple[str, str, Any]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        timeout: float = 30.0,
        gzip: bool = False,
    ) -> Response:
        if method != "GET":
            self.writes.append((method, path.partition("?")[0], json.loads(body)))
        return await super().request(method, path, body=body, content_type=content_type)


class Scene:
    """A running pod, a job for it, and evictions."""

    def __init__(self, default: Policy = Policy.EVICTION, *, burst: int = 10, requests: bool = False) -> None:
        self.clock = FakeClock(NOW)
        self.server = ApiServer(crds=[EVICTION_REQUESTS] if requests else [], clock=self.clock)
        self.wire = Listening(self.server)
        self.client = Client(self.wire, attempts=1)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.evictions = PodEvictions(
            self.client,
            self.recorder,
            self.clock,
            default=default,
            rate=TokenBucket(1.0, burst, self.clock),
            requests=EvictionRequests(self.client),
            rng=random.Random(1),
        )

    async def run(self, **labels: str) -> Pod:
        await self.server.load()
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        await self.client.create_raw(resource_of(Pod), "default", document)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch_status(Pod, "default", "p", {"status": status})
        self.wire.writes.clear()
        return await self.client.get(Pod, "default", "p")

    async def events(self) -> list[Event]:
        await self.recorder.flush()
        return await self.client.list_all(Event)


def job(
    annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> PodMigrationJob:
    return PodMigrationJob(
        metadata=ObjectMeta(
            name="job",
            uid="0b9a6c5e-51e5-4c3f-8a05-2d1c6ad7a2a3",
            annotations=dict(annotations or {}),
            labels=dict(labels or {}),
        )
    )


def counted(result: str, strategy: str) -> float:
    labels = {"result": result, "strategy": strategy, "namespace": "default", "node": "n1"}
    return REGISTRY.get_sample_value("descheduler_pods_evicted", labels) or 0.0


async def test_an_eviction_is_counted_under_its_trigger_and_noted_on_the_pod() -> None:
    it = Scene()
    before = counted("success", "LowNodeLoad")
    pod = await it.run()
    await it.evictions.evict(job(ANNOTATIONS), pod, {"gracePeriodSeconds": 7})
    [(method, path, body)] = it.wire.writes
    assert (method, path) == ("POST", "/api/v1/namespaces/default/pods/p/eviction")
    assert body["deleteOptions"]["preconditions"] == {"uid": pod.metadata.uid}
    assert body["deleteOptions"]["gracePeriodSeconds"] == 7
    assert counted("success", "LowNodeLoad") == before + 1
    [event] = await it.events()
    assert (event.type, event.reason, event.action, event.regarding.kind) == (
        "Normal",
        "Descheduled",
        "Migrating",
        "Pod",
    )
    assert event.note == 'Pod evicted from node "n1" by the reason "a \\"hot\\" node"'


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [({}, "NotSet"), ({"koordinator.sh/evict-trigger": "LowNodeLoad"}, "LowNodeLoad")],
)
async def test_without_a_reason_the_trigger_or_nothing_is_named(
    annotations: Mapping[str, str], reason: str
) -> None:
    it = Scene()
    await it.evictions.evict(job(annotations), await it.run(), None)
    assert [event.note for event in await it.events()] == [
        f'Pod evicted from node "n1" by the reason "{reason}"'
    ]


@pytest.mark.parametrize(
    ("pod", "on_job", "default", "expected"),
    [
        ("", "", Policy.DELETE, Policy.DELETE),
        ("Delete", "SoftEviction", Policy.EVICTION, Policy.DELETE),
        ("", "SoftEviction", Policy.EVICTION, Policy.SOFT_EVICTION),
        ("Unknown", "Delete", Policy.SOFT_EVICTION, Policy.SOFT_EVICTION),
    ],
)
async def test_the_label_of_the_pod_decides_then_that_of_the_job_then_the_default(
    pod: str, on_job: str, default: Policy, expected: Policy
) -> None:
    it = Scene(default)
    running = await it.run(**({LABEL_EVICT_POLICY: pod} if pod else {}))
    labelled = job(labels={LABEL_EVICT_POLICY: on_job} if on_job else {})
    assert it.evictions.policy(labelled, running) is expected


async def test_delete_deletes_that_very_pod_with_the_options_of_the_job() -> None:
    it = Scene(Policy.DELETE)
    pod = await it.run()
    await it.evictions.evict(job(), pod, {"gracePeriodSeconds": 7})
    [(method, path, body)] = it.wire.writes
    assert (method, path) == ("DELETE", "/api/v1/namespaces/default/pods/p")
    assert body["preconditions"] == {"uid": pod.metadata.uid}
    assert body["gracePeriodSeconds"] == 7


async def test_delete_does_not_break_a_budget() -> None:
    it = Scene(Policy.DELETE)
    pod = await it.run(app="x")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await it.client.create_raw(resource_of(PodDisruptionBudget), "default", budget)
    before = counted("error", "")
    with pytest.raises(EvictionFailed, match=r'^error when evicting pod \(ignoring\) "p": ') as caught:
        await it.evictions.evict(job(), pod, None)
    assert caught.value.certain
    assert counted("error", "") == before + 1
    assert (await it.client.get(Pod, "default", "p")).metadata.deletion_timestamp is None
    assert await it.events() == []


async def test_a_successor_of_the_same_name_is_never_evicted() -> None:
    for policy in Policy:
        it = Scene(policy, requests=True)
        pod = await it.run()
        await it.client.delete(Pod, "default", "p", grace_period_seconds=0)
        successor = await it.run()
        if policy is not Policy.EVICTION_REQUEST:
            with pytest.raises(EvictionFailed):
                await it.evictions.evict(job(), pod, None)
        found = await it.client.get(Pod, "default", "p")
        assert found.metadata.uid == successor.metadata.uid
        assert found.metadata.deletion_timestamp is None
        assert ANNOTATION_SOFT_EVICTION not in found.metadata.annotations


async def test_soft_eviction_leaves_a_request_on_the_pod() -> None:
    it = Scene(Policy.SOFT_EVICTION)
    pod = await it.run()
    assert not it.evictions.is_requested(job(ANNOTATIONS), pod)
    await it.evictions.evict(job(ANNOTATIONS), pod, {"gracePeriodSeconds": 7})
    found = await it.client.get(Pod, "default", "p")
    assert found.metadata.deletion_timestamp is None
    assert json.loads(found.metadata.annotations[ANNOTATION_SOFT_EVICTION]) == {
        "timestamp": "2026-01-01T00:00:00Z",
        "deleteOptions": {"gracePeriodSeconds": 7},
        "initiator": "LowNodeLoad",
        "reason": 'a "hot" node',
    }
    assert it.evictions.is_requested(job(ANNOTATIONS), found)


async def test_soft_eviction_leaves_out_what_is_empty() -> None:
    it = Scene(Policy.SOFT_EVICTION)
    await it.evictions.evict(job(), await it.run(), None)
    found = await it.client.get(Pod, "default", "p")
    assert json.loads(found.metadata.annotations[ANNOTATION_SOFT_EVICTION]) == {
        "timestamp": "2026-01-01T00:00:00Z",
        "reason": "NotSet",
    }


async def test_an_eviction_request_asks_once_for_that_very_pod_and_can_be_withdrawn() -> None:
    it = Scene(Policy.EVICTION_REQUEST, requests=True)
    pod = await it.run()
    for _ in range(2):
        await it.evictions.evict(job(), pod, None)
    (method, path, body), _ = it.wire.writes
    assert (method, path) == ("POST", "/apis/lifecycle.k8s.io/v1alpha1/namespaces/default/evictionrequests")
    assert body["spec"] == {
        "target": {"pod": {"name": "p", "uid": pod.metadata.uid}},
        "requester": "koordpy.dev/descheduler",
        "intent": "Eviction",
    }
    assert body["metadata"]["name"] == job().metadata.uid
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == [job().metadata.uid]
    assert (await it.client.get(Pod, "default", "p")).metadata.deletion_timestamp is None


async def test_an_eviction_request_that_failed_says_why_and_a_withdrawn_one_nothing() -> None:
    it = Scene(Policy.EVICTION_REQUEST, requests=True)
    pod = await it.run()
    await it.evictions.evict(job(), pod, None)
    assert await it.evictions.failure(job(), pod) is None
    failed = {"type": "Failed", "status": "True", "reason": "NoResponder", "message": "no responder is left"}
    patch = {"status": {"conditions": [{"type": "TargetEvicted", "status": "False"}, failed]}}
    await it.client.patch_raw(RESOURCE, "default", job().metadata.uid, patch)
    assert await it.evictions.failure(job(), pod) == "no responder is left"
    reference = ObjectReference(namespace="default", name="p")
    done = msgspec.structs.replace(job(), spec=PodMigrationJobSpec(pod_ref=reference))
    for _ in range(2):
        await EvictionRequests(it.client).withdraw(done)
    assert await it.evictions.failure(job(), pod) is None


async def test_where_eviction_requests_are_not_served_the_pod_is_evicted() -> None:
    it = Scene(Policy.EVICTION_REQUEST)
    await it.evictions.evict(job(), await it.run(), None)
    assert (await it.client.get(Pod, "default", "p")).metadata.deletion_timestamp


async def test_without_the_gate_an_eviction_request_is_an_unknown_policy() -> None:
    it = Scene()
    evictions = PodEvictions(
        it.client, None, it.clock, default=Policy.DELETE, rate=TokenBucket(1.0, 1, it.clock)
    )
    pod = await it.run(**{LABEL_EVICT_POLICY: "EvictionRequest"})
    assert evictions.policy(job(), pod) is Policy.DELETE


async def test_evictions_beyond_the_rate_are_refused_until_there_is_a_token() -> None:
    it = Scene(burst=2)
    it.evictions.admit()
    it.evictions.admit()
    with pytest.raises(EvictionFailed, match=r"^TooManyEvictions$") as caught:
        it.evictions.admit()
    assert caught.value.certain
    it.clock.advance(1.0)
    it.evictions.admit()


@pytest.mark.parametrize(
    ("fault", "certain"), [(Fault(status=403), True), (Fault(status=500), False), (Fault(status=409), True)]
)
async def test_only_an_answer_that_refuses_is_certain(fault: Fault, certain: bool) -> None:
    it = Scene()
    pod = await it.run()
    it.server.faults = lambda method, path: fault if path.endswith("/eviction") else None
    with pytest.raises(EvictionFailed) as caught:
        await it.evictions.evict(job(), pod, None)
    assert caught.value.certain is certain
