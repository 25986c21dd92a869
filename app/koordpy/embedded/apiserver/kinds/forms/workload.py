"""The forms of workloads with a pod template, and of their volume claims."""

from typing import Any

from .form import Form, Resources, Selector
from .pod import PodSpec


class _TemplateMetadata(Form):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Template(Form):
    """The template of a Pod."""

    metadata: _TemplateMetadata | None = None
    spec: PodSpec | None = None


class _ReplicationControllerSpec(Form):
    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: Template | None = None


class ReplicationController(Form):
    """A ReplicationController."""

    spec: _ReplicationControllerSpec | None = None
    status: dict[str, Any] | None = None


class _JobSpec(Form):
    template: Template | None = None


class _JobTemplate(Form):
    metadata: _TemplateMetadata | None = None
    spec: _JobSpec | None = None


class _CronJobSpec(Form):
    schedule: str | None = None
    job_template: _JobTemplate | None = None


class CronJob(Form):
    """A CronJob."""

    spec: _CronJobSpec | None = None


class _ClaimSpec(Form):
    access_modes: list[str] | None = None
    resources: Resources | None = None


class Claim(Form):
    """A PersistentVolumeClaim, or the template of one."""

    spec: _ClaimSpec | None = None


class _WorkloadSpec(Form):
    volume_claim_templates: list[Claim] | None = None
    replicas: int | None = None
    selector: Selector | None = None
    completions: int | None = None
    parallelism: int | None = None
    backoff_limit: int | None = None
    template: Template | None = None
    strategy: dict[str, Any] | None = None
    update_strategy: dict[str, Any] | None = None


class Workload(Form):
    """A workload with a pod template."""

    spec: _WorkloadSpec | None = None
    status: dict[str, Any] | None = None
