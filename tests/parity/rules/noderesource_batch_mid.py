"""Batch and mid resources, CPU normalization and amplification of one node over several reconciliations."""

import asyncio
import logging
from typing import Any

from koordpy.api import extension, resource_list
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.scheme import DecodeError
from koordpy.controllers.slo.node_state import NodeState

from ..vectors import equal
from .noderesource_world import World

PLUGINS = ("MidResource", "BatchResource", "CPUNormalization", "ResourceAmplification")
RESOURCES = (extension.BATCH_CPU, extension.BATCH_MEMORY, extension.MID_CPU, extension.MID_MEMORY)
BATCH = RESOURCES[:2]


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    logging.disable(logging.ERROR)

    async def rounds() -> list[dict[str, Any]]:
        world = World(case_in, PLUGINS)
        return [await one(world, item) for item in case_in["rounds"]]

    try:
        return {"rounds": asyncio.run(rounds())}
    finally:
        logging.disable(logging.NOTSET)


async def one(world: World, given: dict[str, Any]) -> dict[str, Any]:
    world.put(NodeMetric, given.get("nodeMetric"))
    if given.get("nodeMetric") is not None and world.node is not None:
        world.controller.demands.forget(world.node.name)
    writes = world.topology_writes
    reconciled = await world.reconcile(given["at"])
    if reconciled is None:
        return {"configUnavailable": True}
    evaluation, prepared, needed = reconciled
    result = evaluation.result
    out: dict[str, Any] = {
        "resources": {
            name: str(quantity)
            for name, quantity in result.quantities.items()
            if quantity is not None and not result.resets[name]
        },
        "resets": sorted(name for name, is_reset in result.resets.items() if is_reset),
        "messages": result.messages,
        "zones": {zone: texts(amounts) for zone, amounts in result.zones.items()},
        "prepared": describe(prepared),
        "syncStatus": bool(needed.status),
        "syncMeta": bool(needed.meta),
    }
    if result.annotations:
        out["annotations"] = result.annotations
    if not evaluation.is_enabled:
        out["disabled"] = True
    topology = world.cluster.store(NodeResourceTopology).get("", prepared.name)
    if topology is not None:
        out["nrtWritten"] = world.topology_writes > writes
        zones = {
            zone.name: {
                item.name: [str(item.capacity), str(item.allocatable), str(item.available)]
                for item in zone.resources
                if item.name in BATCH
            }
            for zone in topology.zones
        }
        out["nrtZones"] = zones
    apply(world, prepared, needed)
    return out


def apply(world: World, prepared: NodeState, needed: Any) -> None:
    node = world.node
    assert node is not None
    if needed.status:
        world.node = prepared
    elif needed.meta:
        node.labels, node.annotations = prepared.labels, prepared.annotations


def describe(node: NodeState) -> dict[str, Any]:
    capacity, allocatable = node.capacity or {}, node.allocatable or {}
    out: dict[str, Any] = {"allocatable": extended(allocatable)}
    if extended(capacity) != extended(allocatable):
        out["capacity"] = extended(capacity)
    annotations = node.annotations or {}
    out["ratios"] = {key: value for key, value in annotations.items() if key.endswith("-ratio")}
    text = annotations.get(extension.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE)
    if text is not None:
        try:
            inner = resource_list.members(text) or {}
            out["origin"] = texts(resource_list.parse(inner.get("resources", "{}")) or {})
        except DecodeError:
            out["origin"] = "bad"
    return out


def extended(amounts: Any) -> dict[str, str]:
    return {name: str(amounts[name]) for name in RESOURCES if name in amounts}


def texts(amounts: Any) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in amounts.items()}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    return equal(comparable(ours), comparable(expected))


def comparable(out: dict[str, Any]) -> Any:
    return [
        {key: numbers(value) if key in NUMBERS else value for key, value in one.items()}
        for one in out["rounds"]
    ]


NUMBERS = ("resources", "zones", "nrtZones", "prepared")


def numbers(value: Any) -> Any:
    """Quantities as numbers, except ratios, which are texts."""
    if isinstance(value, dict):
        return {key: item if key == "ratios" else numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return value if value == "bad" else _number(from_wire(value))


def _number(quantity: Quantity) -> int:
    return quantity.nano_value()
