"""Small clusters and toy plugins for the scheduling tests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode, encode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Bind, Binding, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import Place, build

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def node(name: str, cpu: str = "8", memory: str = "32Gi", pods: str = "110", **spec: Any) -> Node:
    labels = spec.pop("labels", {})
    annotations = spec.pop("annotations", {})
    return decode(
        Node,
        {
            "metadata": {"name": name, "uid": name, "labels": labels, "annotations": annotations},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}},
        },
    )


def pod(name: str, cpu: str = "1", memory: str = "1Gi", node_name: str = "", **spec: Any) -> Pod:
    return decode(Pod, pod_document(name, cpu, memory, node_name, **spec))


def pod_document(
    name: str, cpu: str = "1", memory: str = "1Gi", node_name: str = "", **spec: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": spec.pop("uid", f"uid-{name}")}
    status = spec.pop("status", {})
    requests = {"cpu": cpu, "memory": memory}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            **spec,
        },
        "status": status,
    }


def world(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> Cluster:
    cluster = Cluster(FakeClock(NOW))
    assert len(cluster.nodes) == 0
    for each in nodes:
        cluster.store(Node).apply(each)
    for each_pod in pods:
        cluster.store(Pod).apply(each_pod)
    return cluster


def configuration(
    plugins: Sequence[str], args: Mapping[str, Any] | None = None, **sets: Any
) -> config.SchedulerConfiguration:
    profile: dict[str, Any] = {
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}, **sets},
        "pluginConfig": [{"name": name, "args": given} for name, given in (args or {}).items()],
    }
    return config.read({"apiVersion": API_VERSION, "kind": config.KIND, "profiles": [profile]})


def framework(cluster: Cluster, *classes: type[Plugin], **sets: Any) -> Framework:
    every: tuple[type[Plugin], ...] = (*classes, Binder)
    by_name = {cls.name: cls for cls in every}
    profiles = build(
        configuration([cls.name for cls in classes], **sets),
        lambda _: Handle(cluster),
        place=Place.EXTENDER,
        classes=by_name,
    )
    return profiles.frameworks["default-scheduler"]


class Binder(Plugin, Bind):
    """Binds by writing into the pod store, as the watch would show it."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        document = json.loads(encode(pod))
        document["spec"]["nodeName"] = binding.node_name
        document["metadata"].setdefault("annotations", {}).update(binding.annotations)
        self.handle.cluster.store(Pod).apply(decode(Pod, document))
        return SUCCESS


def extender(
    cluster: Cluster, *classes: type[Plugin], gates: FeatureGates | None = None, **sets: Any
) -> Extender:
    every: tuple[type[Plugin], ...] = (Binder, *classes)
    by_name = {cls.name: cls for cls in every}
    made = create(
        configuration([cls.name for cls in classes if cls.name != "DefaultBinder"], **sets),
        cluster,
        None,
        classes=by_name,
        gates=gates,
    )
    for store in cluster.stores:
        store.synced = True
    return made


def filter_body(pod: Mapping[str, Any], names: Sequence[str]) -> bytes:
    return json.dumps({"Pod": pod, "NodeNames": list(names)}, separators=(",", ":")).encode()


def bind_body(pod: Mapping[str, Any], node_name: str) -> bytes:
    meta = pod["metadata"]
    return json.dumps(
        {
            "PodName": meta["name"],
            "PodNamespace": meta["namespace"],
            "PodUID": meta["uid"],
            "Node": node_name,
        }
    ).encode()
