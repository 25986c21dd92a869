"""What is wanted for the pods of a node, computed only when a pod or a rule changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from koordpy.agent.hooks.reconcilers import Enforced, Reconcilers, Wanted
from koordpy.agent.interface.cgroups import Cgroups, Update
from koordpy.agent.interface.hook import Level
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.toolkit import hook_requests


@dataclass(frozen=True)
class Plan:
    """What is wanted for one pod, its sandbox and its containers."""

    meta: PodMeta
    pod: Wanted
    below: tuple[Wanted, ...]
    complete: bool
    """False if the sandbox was not found; it is looked for again."""

    def enforced(self) -> Iterator[Enforced]:
        """Yield the values without a file."""
        for wanted in (self.pod, *self.below):
            yield from wanted.enforced


class Plans:
    """The plans of all pods."""

    def __init__(self, reconcilers: Reconcilers, layout: CgroupLayout, cgroups: Cgroups) -> None:
        self._reconcilers, self._layout, self._cgroups = reconcilers, layout, cgroups
        self._plans: dict[str, Plan] = {}
        self._merged: tuple[list[Update], list[Update], list[Update]] = ([], [], [])

    def refresh(self, metas: Sequence[PodMeta], *, everything: bool) -> bool:
        """Make the plans those of these pods; return whether any changed.

        Plans of unchanged pods are kept, unless `everything` is to be computed again.
        """
        plans: dict[str, Plan] = {}
        changed = everything or len(metas) != len(self._plans)
        for meta in metas:
            uid = meta.pod.metadata.uid
            plan = self._plans.get(uid)
            if everything or plan is None or not plan.complete or not _is_same(plan.meta, meta):
                plan, changed = self.plan(meta), True
            plans[uid] = plan
        changed = changed or plans.keys() != self._plans.keys()
        if changed:
            known = {item.key for plan in plans.values() for item in plan.enforced()}
            gone = [
                item for plan in self._plans.values() for item in plan.enforced() if item.key not in known
            ]
            self._plans = plans
            self._merge()
            for item in gone:
                item.forget()
        return changed

    def plan(self, meta: PodMeta) -> Plan:
        """Compute what is wanted for one pod."""
        reconcilers = self._reconcilers
        requests = hook_requests.of_pod(meta, self._layout)
        qos = hook_requests.reconciled_qos(requests.pod)
        below = [reconcilers.wanted(Level.CONTAINER, request, qos) for request in requests.containers]
        complete = True
        if reconcilers.levels(Level.SANDBOX):
            sandbox = hook_requests.sandbox(meta, requests.pod, self._layout, self._cgroups)
            complete = bool(sandbox.cgroup_dir) or meta.pod.is_terminal
            below.insert(0, reconcilers.wanted(Level.SANDBOX, sandbox, qos))
        return Plan(meta, reconcilers.wanted(Level.POD, requests.pod, qos), tuple(below), complete)

    @property
    def levels(self) -> tuple[list[Update], list[Update]]:
        """The limits of pods and of what is below them, which must not exceed each other."""
        return self._merged[0], self._merged[1]

    @property
    def others(self) -> list[Update]:
        """All other updates."""
        return self._merged[2]

    def enforced(self) -> Iterator[Enforced]:
        """Yield all values without a file."""
        for plan in self._plans.values():
            yield from plan.enforced()

    def _merge(self) -> None:
        pods: list[Update] = []
        below: list[Update] = []
        others: list[Update] = []
        for plan in self._plans.values():
            for level, wanted in ((pods, (plan.pod,)), (below, plan.below)):
                for each in wanted:
                    for update in each.updates:
                        (level if update.resource in LEVELED else others).append(update)
        self._merged = pods, below, others


LEVELED = frozenset({"cpu.cfs_quota_us", "memory.limit_in_bytes"})
"""Limits that the kernel refuses, or that act at once, where a child exceeds its parent."""


def _is_same(old: PodMeta, new: PodMeta) -> bool:
    return old is new or (old.cgroup_dir == new.cgroup_dir and (old.pod is new.pod or old.pod == new.pod))
