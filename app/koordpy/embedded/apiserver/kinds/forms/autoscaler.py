"""The forms of autoscalers."""

from typing import Any

from .form import Form


class _Target(Form):
    kind: str | None = None
    name: str | None = None
    api_version: str | None = None


class _MetricTarget(Form):
    type: str | None = None
    average_utilization: int | None = None


class _ResourceMetric(Form):
    name: str | None = None
    target: _MetricTarget | None = None
    current: _MetricTarget | None = None


class _Metric(Form):
    type: str | None = None
    resource: _ResourceMetric | None = None
    container_resource: _ResourceMetric | None = None
    pods: dict[str, dict[str, Any]] | None = None
    object: dict[str, dict[str, Any]] | None = None
    external: dict[str, dict[str, Any]] | None = None


class _AutoscalerSpec(Form):
    scale_target_ref: _Target | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    metrics: list[_Metric] | None = None


class _AutoscalerStatus(Form):
    current_metrics: list[_Metric] | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None


class Autoscaler(Form):
    """A HorizontalPodAutoscaler of autoscaling/v2."""

    spec: _AutoscalerSpec | None = None
    status: _AutoscalerStatus | None = None
