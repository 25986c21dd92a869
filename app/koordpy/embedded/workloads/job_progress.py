"""The arithmetic of a Job: which pods count, which indexes are done, how many pods should run.

Pure functions. Source: Kubernetes, `pkg/controller/job` (`job_controller.go`, `indexed_job_utils.go`,
`backoff_utils.go`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Pod

from .objects import Job, is_active

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BACKOFF, LONGEST_BACKOFF = 10.0, 600.0
"""Seconds until a failed pod is replaced: doubled with each failure."""


_MOST_INDEXES = 100_000
"""More indexes are not read: the status may have been written by anything."""
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Progress:
    """What has become of a Job's pods. UIDs are of pods that have ended and are not in the counts yet."""

    active: list[Pod]
    succeeded: int
    failed: int
    new_succeeded: list[Pod] = field(default_factory=list)
    new_failed: list[Pod] = field(default_factory=list)
    indexes: frozenset[int] = frozenset()
    """The completed indexes."""


def is_finished(job: Job) -> str:
    """Return the condition with which a Job ended, Complete or Failed; empty if it has not."""
    for item in job.status.get("conditions") or ():
        if item.get("type") in ("Complete", "Failed") and item.get("status") == "True":
            return str(item["type"])
    return ""


def is_indexed(job: Job) -> bool:
    """Return whether each pod has an index."""
    return bool(job.spec.get("completionMode") == "Indexed")


def progress_of(job: Job, pods: Sequence[Pod]) -> Progress:
    """Return the progress of a Job: its stored counts, and the pods that have ended since."""
    counted = job.status.get("uncountedTerminatedPods") or {}
    known = {*(counted.get("succeeded") or ()), *(counted.get("failed") or ())}
    suspended = bool(job.spec.get("suspend"))
    ended = [pod for pod in pods if FINALIZER in pod.metadata.finalizers and pod.metadata.uid not in known]
    succeeded = [pod for pod in ended if pod.status.phase == "Succeeded"]
    failed = [
        pod
        for pod in ended
        if pod.status.phase == "Failed"
        or (pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded" and not suspended)
    ]
    base = job.count("succeeded") + len(counted.get("succeeded") or ())
    failures = job.count("failed") + len(counted.get("failed") or ()) + len(failed)
    indexes = read_indexes(job.status.get("completedIndexes", ""))
    if is_indexed(job):
        limit = job.spec.get("completions") or 0
        more = {index for pod in succeeded if (index := index_of(pod)) is not None and index < limit}
        indexes = indexes | more
        base = len(indexes)
    else:
        base += len(succeeded)
    return Progress([pod for pod in pods if is_active(pod)], base, failures, succeeded, failed, indexes)


def wanted(job: Job, progress: Progress) -> int:
    """Return how many pods should be active."""
    parallelism = int(job.spec.get("parallelism", 1))
    completions = job.spec.get("completions")
    if completions is None:
        return min(len(progress.active), parallelism) if progress.succeeded else parallelism
    return max(min(int(completions) - progress.succeeded, parallelism), 0)


def is_complete(job: Job, progress: Progress) -> bool:
    """Return whether enough pods have succeeded."""
    completions = job.spec.get("completions")
    if completions is None:
        return progress.succeeded > 0 and not progress.active
    return progress.succeeded >= int(completions)


def failure_of(job: Job, progress: Progress, seconds: float | None) -> tuple[str, str] | None:
    """Return reason and message with which a Job has failed; `seconds` is how long it has been active."""
    deadline = job.spec.get("activeDeadlineSeconds")
    if deadline is not None and seconds is not None and seconds >= float(deadline):
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    limit = int(job.spec.get("backoffLimit", 6))
    restarts = 0
    if ((job.spec.get("template") or {}).get("spec") or {}).get("restartPolicy") == "OnFailure":
        restarts = sum(
            status.restart_count
            for pod in progress.active
            for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )
    too_many = restarts > 0 and restarts >= limit if limit else restarts > 0
    if progress.failed > limit or too_many:
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    return None


def backoff(failures: int) -> float:
    """Return the seconds from the last failure to the next pod."""
    return min(BACKOFF * 2.0 ** min(failures - 1, 16), LONGEST_BACKOFF) if failures > 0 else 0.0


# --- indexes -------------------------------------------------------------------------------------


def index_of(pod: Pod) -> int | None:
    """Return the index of a pod, None if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def next_indexes(job: Job, progress: Progress, count: int) -> list[int]:
    """Return the first indexes that are neither completed nor have an active pod."""
    taken = {index_of(pod) for pod in progress.active} | progress.indexes
    found: list[int] = []
    for index in range(int(job.spec.get("completions") or 0)):
        if len(found) >= count:
            break
        if index not in taken:
            found.append(index)
    return found


def read_indexes(text: str) -> frozenset[int]:
    """Read indexes such as `0-2,5`; what is malformed counts as nothing."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not _NUMBER.fullmatch(first) or (last and not _NUMBER.fullmatch(last)):
            continue
        found.update(range(int(first), min(int(last or first), int(first) + _MOST_INDEXES) + 1))
        if len(found) > _MOST_INDEXES:
            break
    return frozenset(found)


def write_indexes(indexes: Iterable[int]) -> str:
    """Write indexes as `0-2,5`."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1] = [parts[-1][0], index]
        else:
            parts.append([index])
    return ",".join(
        f"{part[0]}-{part[-1]}" if part[-1] - part[0] > 1 else ",".join(map(str, part)) for part in parts
    )
