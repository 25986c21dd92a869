"""Which pods may be migrated, and which not right now.

The non-retryable filters refuse for good; the retryable ones are limits of concurrent migrations, which later
may leave room. The annotation `descheduler.alpha.kubernetes.io/evict` overrides both, but neither the check
for an existing job nor that of the scheduler. Source: Koordinator,
`pkg/descheduler/controllers/migration/arbitrator/filter.go`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit import evictability
from koordpy.descheduling.toolkit.controller_finder import ControllerFinder, Unresolved
from koordpy.lib.counting import counted

from .args import RESERVATION_FIRST, EvictionGate, MigrationControllerArgs
from .evictor_filter import constraints
from .job_table import JobTable
from .jobs import MigrationJobs
from .limit import WorkloadLimit


@dataclass(frozen=True)
class _Limit:
    """A limit of concurrent migrations; `count` tells how many of other pods there are."""

    field: str
    most: int
    count: Callable[[JobTable, Pod], int]
    where: str


class MigrationFilters:
    """The filters of one configuration. Each returns the reason why it refuses a pod, None if it does not."""

    def __init__(
        self, args: MigrationControllerArgs, cluster: Cluster, jobs: MigrationJobs, finder: ControllerFinder
    ) -> None:
        self.args, self._jobs, self._finder = args, jobs, finder
        skipped = args.skipped_gates
        self._constraints = constraints(args, cluster)
        if EvictionGate.EXPECTED_REPLICAS not in skipped:
            self._constraints.append(self._expected_replicas)
        self._limits = [
            _Limit(field, most, count, where)
            for gate, field, most, count, where in (
                (
                    EvictionGate.MAX_MIGRATING_GLOBALLY,
                    "maxMigratingGlobally",
                    args.max_migrating_globally,
                    JobTable.others,
                    "",
                ),
                (
                    EvictionGate.MAX_MIGRATING_PER_NODE,
                    "maxMigratingPerNode",
                    args.max_migrating_per_node,
                    JobTable.other_pods_on_node,
                    " on its node",
                ),
                (
                    EvictionGate.MAX_MIGRATING_PER_NAMESPACE,
                    "maxMigratingPerNamespace",
                    args.max_migrating_per_namespace,
                    JobTable.others_in_namespace,
                    " in its namespace",
                ),
            )
            if gate not in skipped and most is not None and most > 0
        ]
        self._most_migrating = WorkloadLimit(args.max_migrating_per_workload)
        self._most_unavailable = WorkloadLimit(args.max_unavailable_per_workload)
        self._limits_migrating = EvictionGate.MAX_MIGRATING_PER_WORKLOAD not in skipped
        self._limits_unavailable = EvictionGate.MAX_UNAVAILABLE_PER_WORKLOAD not in skipped

    def existing_job(self, pod: Pod) -> str | None:
        """Refuse a pod that an unfinished job is about, by UID or by name."""
        return "a PodMigrationJob of it has not ended" if self._jobs.unfinished.has_pod(pod) else None

    def scheduler(self, pod: Pod) -> str | None:
        """Refuse a pod of another scheduler if jobs reserve resources first: no Reservation would help it."""
        name, known = pod.spec.scheduler_name, self.args.scheduler_names
        if self.args.default_job_mode != RESERVATION_FIRST or name in known:
            return None
        return f"its scheduler {name} is not one of schedulerNames {', '.join(known)}"

    def non_retryable(self, pod: Pod) -> str | None:
        """Refuse a pod that must never be migrated."""
        if evictability.is_asked_for(pod):
            return None
        for check in self._constraints:
            reason = check(pod)
            if reason is not None:
                return reason
        return None

    def retryable(self, pod: Pod, *, arbitrating: bool = False) -> str | None:
        """Refuse a pod where a limit of concurrent migrations is reached.

        While a pod's job is arbitrated, pending jobs count only once they have passed themselves.
        """
        if evictability.is_asked_for(pod):
            return None
        jobs = self._jobs.started if arbitrating else self._jobs.unfinished
        for limit in self._limits:
            if limit.count is JobTable.other_pods_on_node and not pod.spec.node_name:
                continue
            count = limit.count(jobs, pod)
            if count >= limit.most:
                return f"{limit.field}={limit.most} is reached{limit.where}: {count} migrating"
        return self._per_workload(pod, jobs)

    def reason_against(self, pod: Pod) -> str | None:
        """Return the first reason of all filters, asked as a plugin asks; None if they let the pod pass."""
        for check in (self.existing_job, self.scheduler, self.non_retryable, self.retryable):
            reason = check(pod)
            if reason is not None:
                return reason
        return None

    def explanation(self, pod: Pod) -> str | None:
        """Return what `reason_against` returns, with the job that a pod has, and what that waits for."""
        reason, job = self.reason_against(pod), self._jobs.unfinished.job_of(pod)
        if job is None:
            return reason
        name = f"PodMigrationJob {job.metadata.name} of it has not ended"
        if job.spec.paused:
            holds = ", and counts as migrating" if self._jobs.has_passed(job) else ""
            return f"{name}: it is paused (spec.paused){holds}"
        if self._jobs.has_passed(job):
            obstacle = self._jobs.obstacles.of(job.metadata.uid)
            failed = f"; its last attempt failed, and is repeated: {obstacle}" if obstacle else ""
            return f"{name}: {job.status.status or 'it is being carried out'}{failed}"
        waits = self.non_retryable(pod) or self.retryable(pod, arbitrating=True)
        return f"{name}: it waits for arbitration" + (f", because {waits}" if waits else "")

    def _expected_replicas(self, pod: Pod) -> str | None:
        """Protect workloads that a single migration would affect as a whole."""
        owner = pod.metadata.controller
        if owner is None:
            return None
        try:
            workload = self._finder.find(owner, pod.metadata.namespace)
            replicas = 0 if workload is None else workload.replicas
            migrating = self._most_migrating(replicas)
            unavailable = self._most_unavailable(replicas)
        except ValueError as error:
            return _unknown_size(error)
        if self.args.skip_check_expected_replicas or replicas not in (1, migrating, unavailable):
            return None
        return (
            f"{owner.kind} {owner.name} expects {counted(replicas, 'replica')}, of which {migrating} may be "
            f"migrating and {unavailable} unavailable: none would be left"
        )

    def _per_workload(self, pod: Pod, jobs: JobTable) -> str | None:
        owner = pod.metadata.controller
        if owner is None or not (self._limits_migrating or self._limits_unavailable):
            return None
        most_migrating = most_unavailable = 0
        try:
            workload = self._finder.find(owner, pod.metadata.namespace)
            replicas = 0 if workload is None else workload.replicas
            if self._limits_migrating:
                most_migrating = self._most_migrating(replicas)
            if self._limits_unavailable:
                most_unavailable = self._most_unavailable(replicas)
        except ValueError as error:
            return _unknown_size(error)
        migrating = jobs.other_pods_of_owner(pod, owner.uid)
        if self._limits_migrating and migrating and len(migrating) >= most_migrating:
            return (
                f"maxMigratingPerWorkload={most_migrating} of {replicas} is reached by {owner.kind} "
                f"{owner.name}: {len(migrating)} migrating"
            )
        if not self._limits_unavailable:
            return None
        unavailable = migrating
        if workload is not None:
            unavailable |= self._finder.unavailable_pods(workload, pod.metadata.namespace)
        if len(unavailable) >= most_unavailable:
            return (
                f"maxUnavailablePerWorkload={most_unavailable} of {replicas} is reached by {owner.kind} "
                f"{owner.name}: {len(unavailable)} unavailable or migrating"
            )
        return None


def _unknown_size(error: ValueError) -> str:
    if isinstance(error, Unresolved):
        return f"the replicas of its workload are not known: {error}"
    return f"the limit of its workload cannot be computed: {error}"
