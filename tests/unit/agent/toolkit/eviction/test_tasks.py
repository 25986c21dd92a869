"""How the tasks of one round share what evictions release: Koordinator's pinned examples and more."""

import asyncio

import pytest

from koordpy.agent.toolkit.eviction.tasks import Candidate, EvictionTask, ReleaseTarget, work_off
from koordpy.api.core import Pod
from koordpy.api.scheme import decode

MIB = 1 << 20
BATCH_CPU, MID_CPU = "kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"
USED = {"b1": 1536 * MIB, "b2": 768 * MIB, "mid": 3072 * MIB}
REQUESTED = {"b1": {BATCH_CPU: 1000}, "b2": {BATCH_CPU: 500}, "mid": {MID_CPU: 2000}}


class Executor:
    """Evicts every pod but some, and knows some as evicted before."""

    def __init__(self, evicted=(), failing=()):
        self._evicted, self._failing = evicted, failing
        self.calls = []

    async def evict(self, pod, reason, message):
        self.calls.append((pod.metadata.name, reason, message))
        return pod.metadata.name not in self._failing

    def is_evicted(self, pod):
        return pod.metadata.name in self._evicted

    @property
    def names(self):
        return [name for name, _, _ in self.calls]


def candidates(*names):
    pods = [decode(Pod, {"metadata": {"name": name, "namespace": "d", "uid": name}}) for name in names]
    return [Candidate(pod) for pod in pods]


def by_usage(release, *names):
    return EvictionTask(
        "BEMemoryEvict",
        ReleaseTarget.USED,
        {"memory": release},
        candidates(*names),
        lambda candidate: {"memory": USED[candidate.pod.metadata.name]},
    )


def by_request(release, *names, feature="CPUAllocatableEvict"):
    return EvictionTask(
        feature,
        ReleaseTarget.REQUESTED,
        release,
        candidates(*names),
        lambda candidate: REQUESTED[candidate.pod.metadata.name],
    )


def work(executor, *tasks):
    return asyncio.run(work_off(tasks, executor))


def test_a_pod_evicted_for_one_task_counts_for_the_others():
    executor = Executor()
    outcome = work(
        executor,
        by_usage(2048 * MIB, "b1", "b2"),
        by_request({BATCH_CPU: 1200, MID_CPU: 1500}, "b1", "b2", "mid"),
    )
    assert executor.names == ["b1", "b2", "mid"]
    assert outcome.released == {
        "podUsed": {"memory": (1536 + 768 + 3072) * MIB},
        "podResourceRequest": {BATCH_CPU: 1500, MID_CPU: 2000},
    }
    assert outcome.newly_evicted


def test_the_reason_is_the_same_for_all_features_and_the_message_names_the_feature():
    executor = Executor()
    work(executor, by_usage(1, "b1"))
    assert executor.calls == [
        ("b1", "evicted", "trigger by koordlet feature BEMemoryEvict, kill pod: b1"),
    ]


def test_a_pod_that_was_evicted_before_counts_and_is_not_evicted_again():
    executor = Executor(evicted=["b1"])
    outcome = work(executor, by_usage(1536 * MIB, "b1", "b2"))
    assert executor.names == []
    assert not outcome.newly_evicted
    assert work(executor, by_usage(1537 * MIB, "b1", "b2")).newly_evicted
    assert executor.names == ["b2"]


def test_a_pod_that_cannot_be_evicted_does_not_count_and_the_next_is_tried():
    executor = Executor(failing=["b1"])
    outcome = work(executor, task := by_usage(2048 * MIB, "b1", "b2"))
    assert executor.names == ["b1", "b2"]
    assert outcome.missing(task) == {"memory": 1280 * MIB}


def test_a_pod_counts_once_for_two_tasks_with_the_same_target():
    executor = Executor()
    outcome = work(
        executor,
        by_request({BATCH_CPU: 100}, "b1", feature="BECPUEvict"),
        by_request({BATCH_CPU: 1000, MID_CPU: 1}, "b2", "mid"),
    )
    assert executor.names == ["b1", "b2", "mid"]
    assert outcome.released == {"podResourceRequest": {BATCH_CPU: 1500, MID_CPU: 2000}}


@pytest.mark.parametrize("release", [{}, {"memory": 0}])
def test_nothing_is_evicted_for_nothing(release):
    executor = Executor()
    task = EvictionTask("F", ReleaseTarget.USED, release, candidates("b1"), lambda _: {"memory": 1})
    outcome = work(executor, task)
    assert executor.names == []
    assert outcome.released == {}
