"""What is wanted for the pods of a node, computed only when a pod or a rule changed."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from koordpy.agent.hooks.reconcilers import Enforced, Reconcilers, Wanted
from koordpy.agent.interface.cgroups import Cgroups, Update
from koordpy.agent.interface.hook import Level
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.toolkit import hook_requests

log = logging.getLogger(__name__)

LEVELED: Final = frozenset({"cpu.cfs_quota_us", "memory.limit_in_bytes"})
"""Limits that the kernel refuses, or that act at once, where a child exceeds its parent."""

MOST_ATTEMPTS: Final = 6
"""How often a sandbox that is not there is looked for again."""


@dataclass(frozen=True)
class Plan:
    """What is wanted for one pod, its sandbox and its containers."""

    meta: PodMeta
    pod: Wanted
    below: tuple[Wanted, ...]
    attempts: int = 0
    """How often the sandbox was looked for in vain; 0 if there is nothing to look for."""

    @property
    def is_complete(self) -> bool:
        """Whether the plan stays as it is until the pod changes; some runtimes have no sandbox at all."""
        return not 0 < self.attempts < MOST_ATTEMPTS

    @cached_property
    def enforced(self) -> tuple[Enforced, ...]:
        """The values without a file."""
        return tuple(item for wanted in (self.pod, *self.below) for item in wanted.enforced)


class Plans:
    """The plans of all pods."""

    def __init__(self, reconcilers: Reconcilers, layout: CgroupLayout, cgroups: Cgroups) -> None:
        self._reconcilers, self._layout, self._cgroups = reconcilers, layout, cgroups
        self._plans: dict[str, Plan] = {}

    def __iter__(self) -> Iterator[Plan]:
        """Yield all plans."""
        return iter(self._plans.values())

    def refresh(self, metas: Iterable[PodMeta], *, everything: bool) -> list[Plan]:
        """Make the plans those of these pods; return the new and changed ones.

        Plans of unchanged pods are kept, unless `everything` is to be computed again. Values without a file
        whose directory is gone are forgotten.
        """
        plans: dict[str, Plan] = {}
        changed: list[Plan] = []
        replaced: list[Plan] = []
        for meta in metas:
            uid = meta.pod.metadata.uid
            plan = self._plans.get(uid)
            if everything or plan is None or not plan.is_complete or not _is_same(plan.meta, meta):
                replaced += [plan] if plan is not None else []
                again = plan is not None and not everything and _is_same(plan.meta, meta)
                plan = self.plan(meta, plan.attempts if plan is not None and again else 0)
                changed.append(plan)
            plans[uid] = plan
        replaced += [plan for uid, plan in self._plans.items() if uid not in plans]
        self._plans = plans
        known = {item.key for plan in changed for item in plan.enforced}
        for item in (item for plan in replaced for item in plan.enforced if item.key not in known):
            item.forget()
        return changed

    def plan(self, meta: PodMeta, attempts: int = 0) -> Plan:
        """Compute what is wanted for one pod; its sandbox was looked for in vain so many times before.

        A pod whose amounts cannot be read gets nothing.
        """
        reconcilers = self._reconcilers
        try:
            requests = hook_requests.of_pod(meta, self._layout)
        except ValueError as error:
            log.warning("runtime hooks: pod %s: %s", meta.pod.metadata.key, error)
            return Plan(meta, Wanted(), ())
        qos = hook_requests.reconciled_qos(requests.pod)
        below = [reconcilers.wanted(Level.CONTAINER, request, qos) for request in requests.containers]
        found = True
        if reconcilers.has(Level.SANDBOX):
            sandbox = hook_requests.sandbox(meta, requests.pod, self._layout, self._cgroups)
            found = bool(sandbox.cgroup_dir) or meta.pod.is_terminal
            below.insert(0, reconcilers.wanted(Level.SANDBOX, sandbox, qos))
        wanted = reconcilers.wanted(Level.POD, requests.pod, qos)
        return Plan(meta, wanted, tuple(below), 0 if found else attempts + 1)

    def share(self, number: int, shares: int) -> list[Plan]:
        """Return every `shares`-th plan, from `number` on."""
        return list(self._plans.values())[number::shares]


@dataclass
class Writes:
    """What one hook writes: limits of pods and of what is below them, and all else in any order."""

    pod_limits: list[Update] = field(default_factory=list)
    limits_below: list[Update] = field(default_factory=list)
    others: list[Update] = field(default_factory=list)

    @property
    def everything(self) -> list[Update]:
        """All updates."""
        return [*self.others, *self.pod_limits, *self.limits_below]


def by_hook(plans: Iterable[Plan], fixed: Iterable[Wanted] = ()) -> dict[str, Writes]:
    """Return what plans, and wanted values of other directories, write by the name of the hook."""
    found: dict[str, Writes] = defaultdict(Writes)
    for wanted in fixed:
        for hook, update in wanted.updates:
            found[hook].others.append(update)
    for plan in plans:
        for hook, update in plan.pod.updates:
            writes = found[hook]
            (writes.pod_limits if update.resource in LEVELED else writes.others).append(update)
        for wanted in plan.below:
            for hook, update in wanted.updates:
                writes = found[hook]
                (writes.limits_below if update.resource in LEVELED else writes.others).append(update)
    return found


def _is_same(old: PodMeta, new: PodMeta) -> bool:
    return old is new or (old.cgroup_dir == new.cgroup_dir and (old.pod is new.pod or old.pod == new.pod))
