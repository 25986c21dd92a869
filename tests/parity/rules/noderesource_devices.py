"""GPU and RDMA resources of one node over several reconciliations."""

import asyncio
import logging
from typing import Any

from koordpy.api.device import Device
from koordpy.api.quantity import from_wire
from koordpy.api.scheme import decode
from koordpy.cluster.errors import ApiError
from koordpy.controllers.slo.node_state import NodeState
from koordpy_plugins.noderesources.gpudeviceresource.plugin import GPUDeviceResource
from koordpy_plugins.noderesources.rdmadeviceresource.plugin import RDMADeviceResource

from ..vectors import equal
from .noderesource_world import World

PLUGINS = ("GPUDeviceResource", "RDMADeviceResource")


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    logging.disable(logging.ERROR)

    async def rounds() -> list[dict[str, Any]]:
        world = World(case_in, PLUGINS)
        made = []
        for item in case_in["rounds"]:
            made.append(await one(world, item))
        return made

    try:
        return {"rounds": asyncio.run(rounds())}
    finally:
        logging.disable(logging.NOTSET)


async def one(world: World, given: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    devices = world.cluster.store(Device)
    if "node" in given:
        world.node = None if given["node"] is None else NodeState.of_document(given["node"])
    if "device" in given:
        out["enqueued"] = enqueued(world, given["device"])
        devices.replace([] if given["device"] is None else [decode(Device, given["device"])])
        world.device = next(iter(devices), None)
    if given.get("deviceGetError"):
        devices.get = failing  # type: ignore[method-assign, assignment]
    reconciled = await world.reconcile(given["at"])
    if given.get("deviceGetError"):
        del devices.get
    if reconciled is None:
        key = "nodeMissing" if world.controller.config.is_available() else "configUnavailable"
        return {**out, key: True, "syncStatus": False, "syncMeta": False, "node": described(world.node)}
    evaluation, prepared, needed = reconciled
    node, result = world.node, evaluation.result
    assert node is not None
    if needed.status:
        world.node = prepared
    elif needed.meta:
        node.labels = prepared.labels
    if evaluation.is_enabled:
        out |= {
            "resources": {
                name: str(amount)
                for name, amount in result.quantities.items()
                if amount is not None and not result.resets[name]
            },
            "resets": sorted(name for name, is_reset in result.resets.items() if is_reset),
            "messages": result.messages,
        }
        if result.labels:
            out["labels"] = result.labels
    else:
        out["disabled"] = True
    out |= {"syncStatus": bool(needed.status), "syncMeta": bool(needed.meta), "node": described(world.node)}
    return out


def enqueued(world: World, device: dict[str, Any] | None) -> list[bool]:
    """Pass the event of a Device to the handlers of both plugins."""
    queue, made = world.controller.queue, []
    for plugin in world.controller.engine.plugins:
        assert isinstance(plugin, GPUDeviceResource | RDMADeviceResource)
        known = world.device
        if device is None:
            if known is not None:
                plugin._enqueue(known)
        elif known is None:
            plugin._enqueue(decode(Device, device))
        else:
            plugin.device_updated(known, decode(Device, device))
        name = queue.pop()
        made.append(name is not None)
        if name is not None:
            queue.done(name)
    return made


def failing(*_: Any) -> Any:
    raise ApiError("GET", "device", 500, "InternalError", "failed", {}, None)


def described(node: NodeState | None) -> dict[str, Any] | None:
    if node is None:
        return None
    maps = {"labels": node.labels, "allocatable": node.allocatable, "capacity": node.capacity}
    return {name: map_ for name, map_ in maps.items() if map_ is not None}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    theirs = expected["rounds"]
    end = next((at for at, item in enumerate(theirs) if item.get("panic")), len(theirs))
    return equal(comparable(ours["rounds"][:end]), comparable(theirs[:end]))


def comparable(rounds: list[dict[str, Any]]) -> Any:
    return [{**item, "resources": numbers(item.get("resources")), "node": node_of(item)} for item in rounds]


def node_of(item: dict[str, Any]) -> Any:
    node = item.get("node")
    if node is None:
        return None
    return {key: value if key == "labels" else numbers(value) for key, value in node.items()}


def numbers(amounts: dict[str, Any] | None) -> Any:
    return amounts and {name: from_wire(amount).nano_value() for name, amount in amounts.items()}
