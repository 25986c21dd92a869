"""What device plugins of vendors are told of the devices that a pod was allocated, and the locks of nodes."""

import asyncio
import json
from datetime import datetime
from typing import Any

from koordpy.api import device_allocations
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.extension import ANNOTATION_DEVICE_ALLOCATED, LABEL_HAMI_VGPU_NODE
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.handle import Handle
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.scheduling.deviceshare.adapters.adapter import DevicePluginAdapter
from koordpy_plugins.scheduling.deviceshare.adapters.vendors import AdaptionError

NODE = "n"
GO_TIME, OUR_TIME = "parsing time ", "not an RFC 3339 time: "


def run(case: dict[str, Any], tag: str | None) -> object:
    return asyncio.run(_run(case))


async def _run(case: dict[str, Any]) -> object:
    cluster, client = Cluster(), Client(ServerChannel(ApiServer()), attempts=1)
    if case["node"] is not None:
        created = await client.create_raw(
            resource_of(Node), "", {"apiVersion": "v1", "kind": "Node", **case["node"]}
        )
        cluster.store(Node).apply(decode(Node, created))
    if case["device"] is not None:
        cluster.store(Device).apply(decode(Device, case["device"]))
    for key in case["pods"]:
        namespace, name = key.split("/")
        metadata = {"namespace": namespace, "name": name, "uid": key}
        cluster.store(Pod).apply(decode(Pod, {"metadata": metadata}))
    pod = decode(Pod, case["object"])
    allocations = device_allocations.of({ANNOTATION_DEVICE_ALLOCATED: json.dumps(case["allocations"])})
    handle = Handle(cluster, clock=FakeClock(datetime.fromisoformat(case["now"])), client=client)
    binding = Binding(pod, NODE)
    try:
        await DevicePluginAdapter(handle).adapt(pod.metadata, allocations, NODE, binding)
    except AdaptionError as error:
        return {"error": str(error)}
    node = await client.get(Node, "", NODE)
    label = {**pod.metadata.labels, **binding.labels}.get(LABEL_HAMI_VGPU_NODE, "")
    return {"annotations": binding.annotations, "hami": label, "node": node.metadata.annotations}


def same(ours: dict[str, Any], expected: dict[str, Any], case: dict[str, Any]) -> bool:
    """Compare; what is wrong with a time is said in words of our own."""
    if GO_TIME in expected.get("error", ""):
        start = expected["error"].partition(GO_TIME)[0]
        return str(ours.get("error", "")).startswith(start + OUR_TIME)
    return ours == {"node": {}, **expected} if "annotations" in expected else ours == expected


def group(tag: str | None, expected: dict[str, Any]) -> str:
    if "error" in expected:
        return " ".join(word for word in expected["error"].split() if word.isalpha())[:60]
    vendor = next((key for key in sorted(expected["annotations"]) if "scheduling." not in key), "none")
    return f"{vendor} {'locked' if any('lock' in key for key in expected.get('node') or {}) else ''}"
