"""Workloads: the rules of deployments, replica sets, stateful and daemon sets, jobs and cron jobs.

Source: Kubernetes, `pkg/apis/apps`, `pkg/apis/batch` (defaults and validation).
"""

from collections.abc import Callable, Iterable
from typing import Any

from koordpy.api.field_cause import Cause, invalid_value, required, unsupported
from koordpy.api.pods import validation
from koordpy.api.pods.defaults import default_pod_spec

from .. import quantities
from .strategy import WithStatus
from .volumes import default_claim

Document = dict[str, Any]


class WorkloadStrategy(WithStatus):
    """The rules of workloads with a pod template."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._needs_selector = kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")

    def default(self, document: Document) -> None:
        """Set the kind's defaults and those of the template."""
        spec = document.setdefault("spec", {})
        holder = spec
        if self._kind == "CronJob":
            holder = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
            spec["jobTemplate"].setdefault("metadata", {})
        template = holder.get("template")
        if isinstance(template, dict):
            template.setdefault("metadata", {})
            with quantities.refused():
                default_pod_spec(template.setdefault("spec", {}), restart=self._kind not in _JOBS)
        _DEFAULTS[self._kind](spec)

    def prepare_create(self, document: Document) -> None:
        """A new workload has no pods."""
        super().prepare_create(document)
        document["status"] = dict.fromkeys(_COUNTS.get(self._kind, ()), 0)
        if self._kind == "Job" and not document["spec"].get("manualSelector"):
            _generate_selector(document)

    def validate(self, document: Document) -> Iterable[Cause]:
        """The selector is required and must match the template's labels; the template must be a valid pod."""
        spec = document["spec"]
        replicas = spec.get("replicas", 0)
        if replicas < 0:
            yield invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        template = spec.get("template") or {}
        labels = template.get("metadata", {}).get("labels") or {}
        if self._needs_selector:
            selector = spec.get("selector")
            if not selector:
                yield required("spec.selector")
            elif any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
                yield invalid_value(
                    "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
                )
        where = "spec.template.spec"
        if self._kind == "CronJob":
            if not spec.get("schedule"):
                yield required("spec.schedule")
            where = "spec.jobTemplate.spec.template.spec"
            template = spec["jobTemplate"]["spec"].get("template") or {}
        pod = template.get("spec") or {}
        if self._kind in _JOBS and pod.get("restartPolicy") not in ("OnFailure", "Never"):
            told = 'valid values: "OnFailure", "Never"'
            if pod.get("restartPolicy"):
                yield unsupported(f"{where}.restartPolicy", pod["restartPolicy"], ("OnFailure", "Never"))
            else:
                yield required(f"{where}.restartPolicy", told)
                pod = {**pod, "restartPolicy": "Never"}
        yield from validation.validate_spec(pod, where)

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """The selector stays."""
        if self._needs_selector and new["spec"].get("selector") != old["spec"].get("selector"):
            yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")


def _generate_selector(document: Document) -> None:
    """Let a job select its pods by its own UID. Source: Kubernetes, `pkg/registry/batch/job/strategy.go`."""
    metadata, spec = document["metadata"], document["spec"]
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    for name, value in (("controller-uid", metadata["uid"]), ("job-name", metadata["name"])):
        labels.setdefault(name, value)
        labels.setdefault(f"batch.kubernetes.io/{name}", value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", metadata["uid"])
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _roll(spec: Document, member: str, **limits: int | str) -> None:
    """Default to a rolling update within these limits."""
    strategy = spec.setdefault(member, {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for limit, default in limits.items():
            rolling.setdefault(limit, default)


def _deployment(spec: Document) -> None:
    spec.setdefault("replicas", 1)
    _roll(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _replica_set(spec: Document) -> None:
    spec.setdefault("replicas", 1)


def _stateful_set(spec: Document) -> None:
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    _roll(spec, "updateStrategy", partition=0, maxUnavailable=1)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        default_claim(claim)
        claim["status"] = {"phase": "Pending"}


def _daemon_set(spec: Document) -> None:
    spec.setdefault("revisionHistoryLimit", 10)
    _roll(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)


def _job(spec: Document) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )


def _cron_job(spec: Document) -> None:
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


_JOBS = ("Job", "CronJob")
_DEFAULTS: dict[str, Callable[[Document], None]] = {
    "CronJob": _cron_job,
    "DaemonSet": _daemon_set,
    "Deployment": _deployment,
    "Job": _job,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replica_set,
    "StatefulSet": _stateful_set,
}
_COUNTS = {
    "DaemonSet": ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
    "ReplicaSet": ("replicas",),
    "ReplicationController": ("replicas",),
    "StatefulSet": ("replicas", "availableReplicas"),
}


class ReplicationControllerStrategy(WorkloadStrategy):
    """The rules of replication controllers: labels and selector follow the template."""

    def __init__(self) -> None:
        super().__init__("ReplicationController")

    def default(self, document: Document) -> None:
        """The selector is that of the template's labels."""
        super().default(document)
        labels = (document["spec"].get("template") or {}).get("metadata", {}).get("labels")
        if labels:
            document["spec"].setdefault("selector", dict(labels))
            document["metadata"].setdefault("labels", dict(labels))
