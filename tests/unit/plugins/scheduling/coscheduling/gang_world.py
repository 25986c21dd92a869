"""A cluster with Coscheduling, and the objects of gangs."""

import json
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.gang.membership import ANNOTATION_GANG_NAME, LABEL_POD_GROUP
from koordpy.api.gang.settings import ANNOTATION_GROUPS, ANNOTATION_MATCH_POLICY, ANNOTATION_MIN_AVAILABLE
from koordpy.api.koordinator import PodGroup
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.interface.waiting_pods import WaitingPod
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling


class Queue:
    """A scheduling queue that remembers what it was asked for."""

    def __init__(self) -> None:
        self.activated: list[str] = []

    def activate(self, pod: Pod) -> None:
        self.activated.append(pod.metadata.name)

    def move_all(self, event: object) -> None:
        pass


class GangWorld:
    """The plugin on an empty cluster, beside kube-scheduler unless `place` says otherwise."""

    def __init__(self, place: Place = Place.EXTENDER, client: Client | None = None, **args: Any) -> None:
        self.cluster = Cluster()
        self.handle = Handle(self.cluster, client=client)
        self.queue = Queue()
        self.handle.queue.join(self.queue)
        enabled = [{"name": name} for name in ("Coscheduling", "PrioritySort", "DefaultBinder")]
        names = enabled if place is Place.SCHEDULER else [enabled[0], enabled[2]]
        profile = {
            "plugins": {"multiPoint": {"enabled": names, "disabled": [{"name": "*"}]}},
            "pluginConfig": [{"name": "Coscheduling", "args": args}],
        }
        config = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
        profiles = build(config, lambda _: self.handle, place=place)
        plugins = profiles.frameworks["default-scheduler"].plugins
        self.plugin = next(plugin for plugin in plugins if isinstance(plugin, Coscheduling))
        self.cache = self.plugin.cache

    def put(self, *objects: Pod | PodGroup) -> None:
        for obj in objects:
            store: Any = self.cluster.store(type(obj))
            store.apply(obj)

    def delete(self, *objects: Pod | PodGroup) -> None:
        for obj in objects:
            self.cluster.store(type(obj)).discard(obj.metadata.key)

    def wait(self, pod: Pod) -> WaitingPod | None:
        """Run Permit for a pod; return how it waits, None if it need not."""
        status = self.plugin.permit(CycleState(), pod, "n1")
        if status.is_success:
            return None
        assert status.code is Code.WAIT
        return self.handle.waiting_pods.add(pod, "n1", {"Coscheduling": status.timeout})

    def before_pre_filter(self, pod: Pod) -> Status:
        return self.plugin.before_pre_filter(CycleState(), pod)[1]


def member(name: str, gang: str = "g", minimum: int | None = 2, node: str = "", **more: Any) -> Pod:
    """A pod of a gang that annotations describe; without a minimum it names a PodGroup."""
    meta: dict[str, Any] = {"namespace": "ns", "name": name, "uid": f"u-{name}"}
    if minimum is None:
        meta["labels"] = {LABEL_POD_GROUP: gang}
        meta["annotations"] = {}
    else:
        meta["annotations"] = {ANNOTATION_GANG_NAME: gang, ANNOTATION_MIN_AVAILABLE: str(minimum)}
    meta["annotations"].update(_notes(more))
    meta.update(more.pop("metadata", {}))
    return decode(Pod, {"metadata": meta, "spec": {"nodeName": node, **more.pop("spec", {})}, **more})


def pod_group(name: str = "g", minimum: int = 2, **more: Any) -> PodGroup:
    meta = {"namespace": "ns", "name": name, "annotations": _notes(more)}
    return decode(PodGroup, {"metadata": meta, "spec": {"minMember": minimum}, **more})


def _notes(more: dict[str, Any]) -> dict[str, str]:
    notes = dict(more.pop("notes", {}))
    if policy := more.pop("policy", ""):
        notes[ANNOTATION_MATCH_POLICY] = policy
    if group := more.pop("group", ()):
        notes[ANNOTATION_GROUPS] = json.dumps([f"ns/{gang}" for gang in group])
    return notes
