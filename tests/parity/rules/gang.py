"""Operations on one scheduler with Coscheduling, where koordpy is the scheduler itself.

Watch events are passed to the plugin's own handlers, with exactly the objects of the line: an update may come
for an object that was deleted before.
"""

import asyncio
from typing import Any

import numpy as np

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import PodGroup
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.gates import chosen
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.interface.waiting_pods import WaitingPod
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.coscheduling import conditions
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling
from koordpy_plugins.scheduling.coscheduling.state.gang import Gang
from koordpy_plugins.scheduling.coscheduling.waiting import GROUP_ID, MEMBER_COUNT

CODES = {
    Code.SUCCESS: "Success",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
}


class Queue:
    """The scheduling queue, where nothing is looked at."""

    def activate(self, pod: Pod) -> None:
        """Retry a pod soon."""

    def move_all(self, event: ClusterEvent) -> None:
        """Move the pods back that an event may help."""


class Conditions:
    """A client that takes down what is written to pods."""

    def __init__(self) -> None:
        self.written: dict[str, list[str]] = {}

    async def patch_status(self, kind: object, namespace: str, name: str, patch: Any, type_: object) -> None:
        [found] = patch["status"]["conditions"]
        self.written[f"{namespace}/{name}"] = [found[key] for key in ("type", "status", "reason", "message")]


class Scheduler:
    """A cluster, the plugin, and the pods that wait in Permit.

    Lines with `gates` have a scheduling queue, `nodes` nodes, and a client that writes conditions.
    """

    def __init__(self, case: dict[str, Any]) -> None:
        args, gates = case["args"], case.get("gates")
        self.cluster = Cluster()
        for index in range(case.get("nodes", 0)):
            self.cluster.store(Node).apply(decode(Node, {"metadata": {"name": f"n{index}"}}))
        self.conditions = Conditions()
        self.handle = Handle(self.cluster, client=self.conditions)  # type: ignore[arg-type]
        if gates is not None:
            self.handle.queue.join(Queue())
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "profiles": [
                {
                    "plugins": {
                        "multiPoint": {
                            "enabled": [
                                {"name": name} for name in ("Coscheduling", "PrioritySort", "DefaultBinder")
                            ],
                            "disabled": [{"name": "*"}],
                        }
                    },
                    "pluginConfig": [{"name": "Coscheduling", "args": args}],
                }
            ],
        }
        specs = {**SPECS, conditions.GATE: conditions.SPEC}
        profiles = build(
            read(document),
            lambda _: self.handle,
            place=Place.SCHEDULER,
            gates=chosen(specs, gates or {conditions.GATE: False}),
        )
        plugins = profiles.frameworks["default-scheduler"].plugins
        self.plugin = next(plugin for plugin in plugins if isinstance(plugin, Coscheduling))
        self.pods: dict[str, Pod] = {}
        self.pod_groups: dict[str, PodGroup] = {}
        self.cycles: dict[str, CycleState] = {}

    async def run(self, event: dict[str, Any]) -> dict[str, Any]:
        before = {waiting.pod.metadata.key: waiting for waiting in self.handle.waiting_pods}
        self.conditions.written = {}
        answer = self._run(event)
        self._ended(before, answer)
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)
        if self.conditions.written:
            answer["patched"] = self.conditions.written
        return answer

    def _run(self, event: dict[str, Any]) -> dict[str, Any]:
        cache = self.plugin.cache
        match event["op"]:
            case "addPG":
                cache.add_pod_group(self._pod_group(event))
            case "updatePG":
                old = self.pod_groups.get(_key(event["pg"]))
                new = self._pod_group(event)
                cache.update_pod_group(old or new, new)
            case "delPG":
                cache.delete_pod_group(self._pod_group(event))
            case "addPod":
                cache.add_pod(self._pod(event))
            case "updatePod":
                before = self.pods.get(_key(event["pod"]))
                after = self._pod(event)
                cache.update_pod(before or after, after)
            case "delPod":
                pod = self._pod(event)
                cache.delete_pod(pod)
                self._remove(pod)
            case "nextPod":
                found = self.plugin.next_pod()
                return {"pod": None if found is None else found.metadata.key}
            case "preEnqueue":
                return _checked(self.plugin.pre_enqueue(self.pods[event["pod"]]))
            case "beforePreFilter":
                state = self.cycles[event["pod"]] = CycleState()
                return _checked(self.plugin.before_pre_filter(state, self.pods[event["pod"]])[1])
            case "fail":
                return self._fail(self.pods[event["pod"]], event.get("postMsg", ""))
            case "permit":
                return self._permit(self.pods[event["pod"]])
            case "unreserve":
                pod = self.pods[event["pod"]]
                self._remove(pod)
                self.plugin.unreserve(CycleState(), pod, "n")
            case "postBind":
                self.plugin.post_bind(CycleState(), self.pods[event["pod"]], "n")
            case other:
                raise ValueError(other)
        return {}

    def _pod(self, event: dict[str, Any]) -> Pod:
        pod = self.pods[_key(event["pod"])] = decode(Pod, event["pod"])
        return pod

    def _pod_group(self, event: dict[str, Any]) -> PodGroup:
        found = self.pod_groups[_key(event["pg"])] = decode(PodGroup, event["pg"])
        return found

    def _fail(self, pod: Pod, message: str) -> dict[str, Any]:
        state = self.cycles.get(pod.metadata.key) or CycleState()
        nodes = self.cluster.nodes.all()
        outcome = FilterOutcome(nodes, np.zeros(len(nodes), bool))
        status = self.plugin.rounds.after_post_filter(state, pod, outcome, Status.unschedulable(message))
        return {"code": CODES[status.code]} | ({"msg": status.message} if status.message else {})

    def _permit(self, pod: Pod) -> dict[str, Any]:
        gang = self.plugin.cache.gang_of(pod)
        status = self.plugin.permit(CycleState(), pod, "n")
        if status.code is Code.WAIT:
            self.handle.waiting_pods.add(pod, "n", {"Coscheduling": status.timeout})
            return {"status": "Wait", "wait": int(status.timeout)}
        if not status.is_success:
            return {"status": "PodGroup not found", "wait": 0}
        if gang is None:
            return {"status": "PodGroup not specified", "wait": 0}
        binding = Binding(pod, "n")
        self.plugin.waiting.annotate(binding)
        answer: dict[str, Any] = {"status": "Success", "wait": 0}
        if binding.annotations:
            count = int(binding.annotations[MEMBER_COUNT])
            answer["binding"] = [binding.annotations[GROUP_ID], count]
        return answer

    def _remove(self, pod: Pod) -> None:
        for waiting in self.handle.waiting_pods:
            if waiting.pod.metadata.key == pod.metadata.key:
                self.handle.waiting_pods.remove(waiting)

    def _ended(self, before: dict[str, WaitingPod], answer: dict[str, Any]) -> None:
        allowed: list[str] = []
        rejected: list[str] = []
        for key, waiting in before.items():
            outcome = waiting._outcome
            if not outcome.done() or self.handle.waiting_pods.get(waiting.pod.metadata.uid) is not waiting:
                continue
            self.handle.waiting_pods.remove(waiting)
            (allowed if outcome.result().is_success else rejected).append(key)
            if not outcome.result().is_success:
                answer["rejectMsg"] = outcome.result().message
        if allowed:
            answer["allowed"] = sorted(allowed)
        if rejected:
            answer["rejected"] = sorted(rejected)

    def final(self) -> dict[str, Any]:
        found: dict[str, Any] = {"gangs": {id_: _gang(gang) for id_, gang in self.plugin.cache.gangs.items()}}
        context = self.plugin.holder.current
        if context is not None:
            found["context"] = {
                "first": context.first_pod.metadata.key,
                "group": sorted(context.gangs),
                "groupId": context.group_id,
                "attempted": sorted(context.attempted),
                "failed": context.failed_message,
            }
        return found


def _key(document: dict[str, Any]) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def _checked(status: Status) -> dict[str, Any]:
    return {"ok": True} if status.is_success else {"err": status.message}


def _gang(gang: Gang) -> dict[str, Any]:
    return {
        "inited": gang.is_initialized,
        "from": str(gang.settings.source),
        "min": gang.settings.min_member,
        "total": gang.settings.total,
        "mode": gang.settings.mode,
        "policy": gang.settings.match_policy,
        "wait": int(gang.settings.wait_seconds * 1000 + 1e-6),
        "group": list(gang.settings.group),
        "once": gang.group.once_satisfied,
        "children": sorted(gang.children),
        "pending": sorted(gang.pending),
        "waiting": sorted(gang.waiting),
        "bound": sorted(gang.bound),
        "groupWaiting": sorted(gang.group.waiting_gangs),
        "representative": gang.group.representative,
        "binding": sorted(gang.group.binding_members),
    }


def run(case: dict[str, Any], tag: str | None) -> object:
    return asyncio.run(_run(case))


async def _run(case: dict[str, Any]) -> object:
    scheduler = Scheduler(case)
    results = [await scheduler.run(event) for event in case["events"]]
    return {"results": results, "final": scheduler.final()}
