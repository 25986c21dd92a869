"""Annotations of nodes and pods that change thresholds and estimates.

A value that Go's decoder would refuse is ignored.
Source: Koordinator, `apis/extension/load_aware.go`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from koordpy.api import extension, quantity
from koordpy.api.core import Node, Pod
from koordpy.api.meta import ResourceList
from koordpy.lib import duration, int64


@dataclass(frozen=True, slots=True)
class UsageThresholds:
    """Percent of allocatable by resource; empty maps and an empty aggregation type mean "not set"."""

    usage: Mapping[str, int] = field(default_factory=dict)
    prod: Mapping[str, int] = field(default_factory=dict)
    aggregated: Mapping[str, int] = field(default_factory=dict)
    aggregation_type: str = ""
    aggregated_duration: int = 0
    """Nanoseconds; 0 means the longest reported duration."""


def usage_thresholds(node: Node) -> UsageThresholds | None:
    """Return a node's own thresholds, None when it has no valid ones."""
    text = node.metadata.annotations.get(extension.ANNOTATION_CUSTOM_USAGE_THRESHOLDS)
    if text is None:
        return None
    try:
        fields = _fields(json.loads(text))
        aggregated = _fields(fields.get("aggregatedusage"))
        period = aggregated.get("usageaggregatedduration")
        kind = aggregated.get("usageaggregationtype")
        if not isinstance(period, str | None) or not isinstance(kind, str | None):
            return None
        return UsageThresholds(
            _integers(fields.get("usagethresholds")),
            _integers(fields.get("produsagethresholds")),
            _integers(aggregated.get("usagethresholds")),
            kind or "",
            0 if period is None else duration.parse(period),
        )
    except (ValueError, RecursionError):
        return None


def scaling_factors(pod: Pod) -> Mapping[str, int]:
    """Return a pod's own estimate percentages by resource, empty when it has no valid ones."""
    text = pod.metadata.annotations.get(extension.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS)
    if text is None:
        return {}
    try:
        return _integers(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def seconds_after_pod_scheduled(pod: Pod) -> int:
    """Return for how long a scheduled pod counts with its estimate, -1 if it is not set."""
    return _seconds(pod, extension.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED)


def seconds_after_initialized(pod: Pod) -> int:
    """Return for how long an initialized pod counts with its estimate, -1 if it is not set."""
    return _seconds(pod, extension.ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED)


def raw_allocatable(node: Node) -> ResourceList:
    """Return the node's resources before amplification by Koordinator, empty if they are not set."""
    text = node.metadata.annotations.get(extension.ANNOTATION_NODE_RAW_ALLOCATABLE)
    if text is None:
        return {}
    try:
        amounts = json.loads(text) or {}
        if not isinstance(amounts, dict):
            return {}
        for amount in amounts.values():
            quantity.from_wire(amount)
        return {name: 0 if amount is None else amount for name, amount in amounts.items()}
    except (ValueError, TypeError, RecursionError):
        return {}


def _seconds(pod: Pod, annotation: str) -> int:
    number = int64.parse(pod.metadata.annotations.get(annotation, ""))
    return -1 if number is None else number


def _fields(document: Any) -> dict[str, Any]:
    """The members of an object by lower-case name: Go's decoder ignores case. Null is empty."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return {name.lower(): value for name, value in document.items()}


def _integers(document: Any) -> dict[str, int]:
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("not an object")
    integers = {name: 0 if value is None else value for name, value in document.items()}
    for value in integers.values():
        if type(value) is not int or not int64.fits(value):
            raise ValueError(f"not an integer: {value!r}")
    return integers
