"""The response of `/apis/v1/plugins/LoadAwareScheduling/node/<name>`.

Source: Koordinator, `pkg/scheduler/plugins/loadaware/service.go`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from koordpy.api.quantity import MILLI, Format, Quantity

from .estimator import Vector
from .node_load import NodeLoad

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def node_assign_info(load: NodeLoad | None, names: Sequence[str]) -> dict[str, Any]:
    """Return a node's pods by time of addition, and the sums if it has a NodeMetric; {} if unknown."""
    if load is None:
        return {}
    info: dict[str, Any] = {}
    if load.pods:
        info["pods"] = [
            {"timestamp": _time(assigned.timestamp), "pod": msgspec.to_builtins(assigned.pod)}
            for assigned in sorted(load.pods.values(), key=lambda assigned: assigned.timestamp)
        ]
    if load.metric is None:
        return info
    info["prodUsage"] = _amounts(load.prod_usage, names)
    info["nodeDelta"] = _amounts(load.node_delta, names)
    info["prodDelta"] = _amounts(load.prod_delta, names)
    info["nodeEstimated"] = _amounts(load.node_estimated, names)
    for field, pods in (
        ("nodeDeltaPods", load.node_delta_pods),
        ("prodDeltaPods", load.prod_delta_pods),
        ("nodeEstimatedPods", load.node_estimated_pods),
    ):
        if pods:
            info[field] = sorted(pods)
    return info


def _amounts(vector: Vector, names: Sequence[str]) -> dict[str, str]:
    return {name: str(_quantity(name, amount)) for name, amount in zip(names, vector, strict=True)}


def _quantity(name: str, amount: int) -> Quantity:
    if name == "cpu":
        return Quantity.of_scaled(amount, MILLI)
    if name == "memory" and amount % 1024 == 0:
        return Quantity.of(amount, Format.BINARY_SI)
    return Quantity.of(amount)


def _time(micros: int) -> str:
    """Format a time as RFC 3339 without trailing zeros in the fraction."""
    moment = _EPOCH + timedelta(microseconds=micros)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return f"{text}Z"
