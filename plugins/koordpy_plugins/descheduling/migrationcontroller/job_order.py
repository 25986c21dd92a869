"""In which order waiting jobs are arbitrated.

Four stable sorts, the last of which decides first: the newest job; the pod that is evicted first anyway; jobs
for pods of one batch Job together; the batch Job with the most pods already migrating. Source: Koordinator,
`pkg/descheduler/controllers/migration/arbitrator/sort.go`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.descheduling.toolkit import pod_sorter

_JOB: Final = "Job"
"""The kind of owners whose pods are grouped, of any API group."""

Candidate = tuple[PodMigrationJob, Pod | None]
"""A waiting job and its pod, None if that does not exist."""


def sort_jobs(candidates: Sequence[Candidate], migrating: Callable[[str], int]) -> list[Candidate]:
    """Return waiting jobs in the order of their arbitration.

    `migrating` counts the jobs under way of the pods that a UID owns. Equal jobs keep their order.
    """
    found = sorted(candidates, key=lambda item: _created(item[0]), reverse=True)
    found.sort(key=lambda item: (0,) if item[1] is None else (1, *pod_sorter.sort_key(item[1])))
    owners = [_batch_job(pod) for _, pod in found]
    first: dict[str, int] = {}
    for index, uid in enumerate(owners):
        if uid is not None:
            first.setdefault(uid, index)
    places = range(len(found))
    grouped = sorted(places, key=lambda index: _place(owners[index], index, first))
    counts = {uid: migrating(uid) for uid in first}
    ranked = sorted(grouped, key=lambda index: -counts.get(owners[index] or "", 0))
    return [found[index] for index in ranked]


def _place(owner: str | None, index: int, first: dict[str, int]) -> int:
    return index if owner is None else first[owner]


def _created(job: PodMigrationJob) -> float:
    created = job.metadata.creation_timestamp
    return parse_time(created).timestamp() // 1 if created else float("-inf")


def _batch_job(pod: Pod | None) -> str | None:
    owner = pod.metadata.controller if pod is not None else None
    return owner.uid if owner is not None and owner.kind == _JOB else None
