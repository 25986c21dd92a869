"""The PodMigrationJob that an eviction becomes.

Source: Koordinator, `pkg/descheduler/controllers/migration/evict.go`, `context.go`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from koordpy.api.core import ObjectReference, Pod
from koordpy.api.meta import ObjectMeta
from koordpy.api.pod_migration_job import (
    ANNOTATION_EVICT_REASON,
    ANNOTATION_EVICT_TRIGGER,
    ANNOTATION_JOB_CREATED_BY,
    PodMigrationJob,
    PodMigrationJobSpec,
)
from koordpy.descheduling.interface import EvictOptions
from koordpy.lib import duration

from .args import MigrationControllerArgs


@dataclass(frozen=True)
class JobContext:
    """What a caller of `evict` wants of the job besides the controller's defaults."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    timeout: int | None = None
    """Nanoseconds; 0 for no timeout."""
    mode: str = ""


_CONTEXT: Final[ContextVar[JobContext | None]] = ContextVar("job_context", default=None)


@contextmanager
def job_context(context: JobContext) -> Iterator[None]:
    """Create jobs with these settings inside the block, in this task."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def job_for(
    pod: Pod, options: EvictOptions, args: MigrationControllerArgs, *, name: str, created_by: str
) -> PodMigrationJob:
    """Return the job that evicts a pod, with the settings of the current `job_context`."""
    annotations = {
        ANNOTATION_EVICT_REASON: options.reason,
        ANNOTATION_EVICT_TRIGGER: options.plugin_name,
        ANNOTATION_JOB_CREATED_BY: created_by,
    }
    context = _CONTEXT.get() or JobContext()
    ttl = args.default_job_ttl if context.timeout is None else context.timeout
    meta = pod.metadata
    return PodMigrationJob(
        metadata=ObjectMeta(
            name=name, labels=dict(context.labels), annotations={**annotations, **context.annotations}
        ),
        spec=PodMigrationJobSpec(
            pod_ref=ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid),
            mode=context.mode or args.default_job_mode,
            ttl=duration.format(ttl),
            delete_options=_delete_options(options, args),
        ),
    )


def _delete_options(options: EvictOptions, args: MigrationControllerArgs) -> dict[str, Any] | None:
    """The caller's options, else the controller's; a grace period of the caller comes first."""
    given = options.delete_options
    found = dict(given) if given is not None else args.default_deletion
    if options.grace_period_seconds is not None:
        found = {**(found or {}), "gracePeriodSeconds": options.grace_period_seconds}
    return found
