"""HorizontalPodAutoscalers: kept in autoscaling/v2, and served in autoscaling/v1 too.

They are stored, not acted on. In v1 an autoscaler has one metric, the utilization of CPU: a write in v1
replaces the metrics of v2 by it.

Source: Kubernetes, `pkg/apis/autoscaling/v1/conversion.go`, `pkg/apis/autoscaling/validation`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from koordpy.api.field_cause import Cause, invalid_value, required

from ..catalog import Served
from .strategy import Strategy

Document = dict[str, Any]

_OLD_FIELD, _OLD_STATUS = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


class AutoscalerStrategy(Strategy):
    """The rules of autoscalers."""

    has_status = True

    def default(self, document: Document) -> None:
        """One replica at least, and a CPU utilization of 80 % if no metric is given."""
        spec = document.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [_cpu(80)]
        document.setdefault("status", {})

    def prepare_create(self, document: Document) -> None:
        """A new autoscaler has measured nothing."""
        document["status"] = {"currentMetrics": None, "desiredReplicas": 0}

    def validate(self, document: Document) -> Iterable[Cause]:
        """The target is named, and the limits are in order."""
        spec = document["spec"]
        target = spec.get("scaleTargetRef") or {}
        for name in ("kind", "name"):
            if not target.get(name):
                yield required(f"spec.scaleTargetRef.{name}")
        least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
        if least < 1:
            yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
        if most < 1:
            yield invalid_value("spec.maxReplicas", most, "must be greater than 0")
        elif most < least:
            told = "must be greater than or equal to `minReplicas`"
            yield invalid_value("spec.maxReplicas", most, told)


class OldAutoscalerStrategy(AutoscalerStrategy):
    """The rules of autoscalers in autoscaling/v1."""

    def prune(self, served: Served, document: Document, unknown: list[str]) -> Document:
        """Drop unknown fields, and turn into an autoscaler of v2."""
        if isinstance(spec := document.get("spec"), dict) and _OLD_FIELD in spec:
            percent = spec.pop(_OLD_FIELD)
            if percent is not None:
                spec["metrics"] = [_cpu(percent)]
        if isinstance(status := document.get("status"), dict):
            status.pop(_OLD_STATUS, None)
        return super().prune(served, document, unknown)

    def reveal(self, served: Served, document: Document) -> Document:
        """Turn a stored autoscaler into one of v1."""
        spec, status = dict(document["spec"]), dict(document.get("status") or {})
        percent = _percent(spec.pop("metrics", None), "target")
        if percent is not None:
            spec[_OLD_FIELD] = percent
        spec.pop("behavior", None)
        status.pop("conditions", None)
        measured = _percent(status.pop("currentMetrics", None), "current")
        if measured is not None:
            status[_OLD_STATUS] = measured
        return {**document, "spec": spec, "status": {"currentReplicas": 0, "desiredReplicas": 0, **status}}

    def present(self, served: Served, raw: bytes) -> bytes:
        """Turn a stored autoscaler into one of v1."""
        return served.prefix + msgspec.json.encode(self.reveal(served, msgspec.json.decode(raw)))[1:]

    def present_items(self, served: Served, raws: list[bytes]) -> list[bytes]:
        """Turn stored autoscalers into items of a list."""
        return [msgspec.json.encode(self.reveal(served, msgspec.json.decode(raw))) for raw in raws]


def _cpu(percent: Any) -> Document:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _percent(metrics: Any, member: str) -> Any:
    """The utilization of CPU among metrics."""
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if resource.get("name") == "cpu":
            return (resource.get(member) or {}).get("averageUtilization")
    return None
