"""A set of PodMigrationJobs, counted by what the limits are about: pods, nodes, namespaces, workloads.

Filters ask for these counts for every candidate of a round, so none of them walks all jobs or all pods. A pod
is a job's pod by its UID or by its `namespace/name`, as in Koordinator (`arbitrator/filter.go`).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.cluster.store import Store

K = TypeVar("K", bound=Hashable)


class JobTable:
    """The jobs by UID. `pods_on` returns the pods of a node.

    What depends on pods is computed on demand and kept until a job or one of these pods changes: the owner of
    the table reports pods that appear, disappear or get another node or owner through `pod_changed`.
    """

    def __init__(self, pods: Store[Pod], pods_on: Callable[[str], Iterable[Pod]]) -> None:
        self._pods, self._pods_on = pods, pods_on
        self._jobs: dict[str, PodMigrationJob] = {}
        self._total = 0
        self._pod_uids: Counter[str] = Counter()
        self._pod_keys: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._in_namespace: Counter[tuple[str, str]] = Counter()
        self._on_nodes: dict[str, frozenset[str]] = {}
        self._of_owners: dict[str, list[PodMigrationJob]] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, uid: object) -> bool:
        return uid in self._jobs

    def add(self, job: PodMigrationJob) -> None:
        """Add a job, or replace the one with its UID."""
        self.discard(job.metadata.uid)
        self._jobs[job.metadata.uid] = job
        self._count(job, 1)

    def discard(self, uid: str) -> None:
        """Remove the job with that UID, if it is in the set."""
        job = self._jobs.pop(uid, None)
        if job is not None:
            self._count(job, -1)

    def _count(self, job: PodMigrationJob, change: int) -> None:
        reference = job.spec.pod_ref
        if reference is None:
            return
        self._total += change
        _add(self._pod_uids, reference.uid, change)
        _add(self._pod_keys, job.pod_key, change)
        _add(self._namespaces, reference.namespace, change)
        _add(self._in_namespace, (reference.namespace, reference.uid), change)
        self._on_nodes.clear()
        self._of_owners = None

    def pod_changed(self, pod: Pod) -> None:
        """Forget what was computed with a pod, which appeared, disappeared, or changed its node or owner."""
        self._on_nodes.pop(pod.spec.node_name, None)
        if pod.metadata.key in self._pod_keys:
            self._of_owners = None

    def has_pod(self, pod: Pod) -> bool:
        """Return whether a job is about a pod, by its UID or its name."""
        return pod.metadata.uid in self._pod_uids or pod.metadata.key in self._pod_keys

    def job_of(self, pod: Pod) -> PodMigrationJob | None:
        """Return a job about a pod, None if there is none. Walks all jobs: for explanations."""
        if not self.has_pod(pod):
            return None
        uid, key = pod.metadata.uid, pod.metadata.key
        return next((job for job in self._jobs.values() if job.pod_uid == uid or job.pod_key == key), None)

    def others(self, pod: Pod) -> int:
        """Return how many jobs are about other pods, by UID."""
        return self._total - self._pod_uids.get(pod.metadata.uid, 0)

    def others_in_namespace(self, pod: Pod) -> int:
        """Return how many jobs are about other pods, by UID, of the pod's namespace."""
        namespace = pod.metadata.namespace
        return self._namespaces.get(namespace, 0) - self._in_namespace.get((namespace, pod.metadata.uid), 0)

    def other_pods_on_node(self, pod: Pod) -> int:
        """Return how many other pods of the pod's node have a job."""
        if not self._jobs:
            return 0
        node = pod.spec.node_name
        found = self._on_nodes.get(node)
        if found is None:
            found = frozenset(other.metadata.uid for other in self._pods_on(node) if self.has_pod(other))
            self._on_nodes[node] = found
        return len(found) - (pod.metadata.uid in found)

    def other_pods_of_owner(self, pod: Pod, owner_uid: str) -> set[str]:
        """Return the existing pods with that controller that another pod's job names, as `namespace/name`."""
        if not self._jobs:
            return set()
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        return {
            job.pod_key
            for job in self._by_owner().get(owner_uid, ())
            if job.pod_uid != uid and job.pod_key.startswith(f"{namespace}/")
        }

    def _by_owner(self) -> Mapping[str, list[PodMigrationJob]]:
        if self._of_owners is None:
            self._of_owners = {}
            for job in self._jobs.values():
                pod = self._pods.by_key(job.pod_key)
                owner = pod.metadata.controller if pod is not None else None
                if owner is not None:
                    self._of_owners.setdefault(owner.uid, []).append(job)
        return self._of_owners


def _add(counter: Counter[K], key: K, change: int) -> None:
    counter[key] += change
    if not counter[key]:
        del counter[key]
