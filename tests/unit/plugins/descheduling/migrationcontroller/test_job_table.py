"""The counts of a job table equal those of a walk over all jobs and pods, whatever happened before."""

import random

from koordpy.api.core import ObjectReference, Pod
from koordpy.api.meta import ObjectMeta
from koordpy.api.pod_migration_job import PodMigrationJob, PodMigrationJobSpec
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy.testing.cluster import cluster
from koordpy_plugins.descheduling.migrationcontroller.job_table import JobTable

from .migrations import pod


def job(number: int, of: Pod, *, with_uid: bool) -> PodMigrationJob:
    meta = of.metadata
    reference = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid if with_uid else "")
    return PodMigrationJob(
        metadata=ObjectMeta(name=f"j{number}", uid=f"j{number}"), spec=PodMigrationJobSpec(pod_ref=reference)
    )


def counted(jobs: list[PodMigrationJob], pods: list[Pod], of: Pod) -> tuple[int, int, int, set[str]]:
    """Return what the table must count, as Koordinator counts it."""
    uid, owner = of.metadata.uid, of.metadata.controller

    def has_job(other: Pod) -> bool:
        return any(other.metadata.uid == item.pod_uid or other.metadata.key == item.pod_key for item in jobs)

    existing = {other.metadata.key: other for other in pods}
    others = [item for item in jobs if item.pod_uid != uid]
    return (
        len(others),
        sum(item.pod_key.startswith(f"{of.metadata.namespace}/") for item in others),
        sum(
            other.metadata.uid != uid and other.spec.node_name == of.spec.node_name and has_job(other)
            for other in pods
        ),
        {
            item.pod_key
            for item in others
            if item.pod_key in existing
            and (controller := existing[item.pod_key].metadata.controller) is not None
            and owner is not None
            and controller.uid == owner.uid
            and item.pod_key.startswith(f"{of.metadata.namespace}/")
        },
    )


def test_counts_follow_jobs_and_pods() -> None:
    rng = random.Random(7)
    known = cluster()
    store = known.store(Pod)
    table = JobTable(store, NodePods(known).all_on)
    store.subscribe(table.pod_changed, lambda _, new: table.pod_changed(new), table.pod_changed)
    jobs: dict[str, PodMigrationJob] = {}
    everything = [
        pod(f"p{number}", on=f"n{number % 4}", owner=f"w{number % 3}", namespace=f"ns{number % 2}")
        for number in range(24)
    ]
    for step in range(400):
        chosen = rng.choice(everything)
        match rng.randrange(5):
            case 0 | 1:
                added = job(step, chosen, with_uid=rng.random() < 0.7)
                jobs[added.metadata.uid] = added
                table.add(added)
            case 2 if jobs:
                gone = rng.choice(list(jobs))
                del jobs[gone]
                table.discard(gone)
            case 3:
                store.apply(chosen)
            case _:
                store.discard(chosen.metadata.key)
        for asked in rng.sample(everything, 6):
            owner = asked.metadata.controller
            assert owner is not None
            found = (
                table.others(asked),
                table.others_in_namespace(asked),
                table.other_pods_on_node(asked),
                table.other_pods_of_owner(asked, owner.uid),
            )
            assert found == counted(list(jobs.values()), list(store), asked)
