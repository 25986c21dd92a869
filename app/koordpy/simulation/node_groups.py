"""The nodes of a scenario: groups of equal nodes, and tables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from koordpy.api import quantity
from koordpy.embedded.kubelet.usage import MEASURED

from . import tables
from .planned import PlannedNode
from .scenario import NodeGroup

Document = dict[str, Any]


def of_group(group: NodeGroup) -> Iterator[PlannedNode]:
    """Yield the nodes of a group, numbered."""
    for index in range(group.count):
        name = str(group.name) if group.count == 1 else f"{group.name}-{index}"
        yield _node(group, name, group.allocatable, {}, group.joins + index * group.every)


def of_table(group: NodeGroup, folder: Path) -> Iterator[PlannedNode]:
    """Yield the nodes of a table. Raises ConfigError naming the row, OSError."""
    columns = group.columns
    for index, (place, row) in enumerate(tables.rows(folder / str(group.table))):
        amounts = {
            name: found
            for name, expression in columns.amounts.items()
            if (found := tables.amount(row, expression, place)) != "0"
        }
        labels = {
            label: found
            for label, column in columns.labels.items()
            if (found := tables.cell(row, column, place))
        }
        name = tables.cell(row, columns.name, place)
        yield _node(group, name, {**group.allocatable, **amounts}, labels, group.joins + index * group.every)


def _node(
    group: NodeGroup, name: str, amounts: Mapping[str, Any], labels: Mapping[str, str], joins: float
) -> PlannedNode:
    allocatable = {"pods": "110", **{resource: str(amount) for resource, amount in amounts.items()}}
    metadata: Document = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name, **group.labels, **labels},
        **({"annotations": dict(group.annotations)} if group.annotations else {}),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": [dict(taint) for taint in group.taints]} if group.taints else {},
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    system = {**dict.fromkeys(MEASURED, 0.0), **_measured(group.system_usage)}
    capacity = {**dict.fromkeys(MEASURED, 0.0), **_measured(allocatable)}
    return PlannedNode(
        name,
        document,
        joins,
        group.leaves,
        (system["cpu"], system["memory"]),
        (capacity["cpu"], capacity["memory"]),
    )


def _measured(amounts: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for resource in MEASURED:
        if resource in amounts:
            found[resource] = float(quantity.resource_value(resource, amounts[resource]))
    return found
