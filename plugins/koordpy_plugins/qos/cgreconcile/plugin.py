"""CgroupReconcile: memory QoS.

The memory that pods request is protected (`memory.min`, `memory.low`), containers are throttled before they
reach their limit (`memory.high`), and the kernel's own reclaim and OOM killer are told about priorities,
by NodeSLO `resourceQOSStrategy` and the annotation `koordinator.sh/memoryQOS`. Values of a tree are written
level by level, so that the children's protection never exceeds the parent's.

Rules: Koordinator, `pkg/koordlet/qosmanager/plugins/cgreconcile`.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from koordpy.agent.interface import (
    MEMORY_QOS,
    RECONCILE_INTERVAL,
    FlagSet,
    Handle,
    PodMeta,
    QOSPlugin,
    Update,
)
from koordpy.agent.interface.gates import CGROUP_RECONCILE
from koordpy.agent.toolkit import rounds
from koordpy.api import quantity
from koordpy.api.core import Node, Pod
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.pod_memory_qos import PodMemoryQOSConfig
from koordpy.api.slo.resource_qos import ResourceQOSStrategy

from . import memory, settings
from .memory import PodMemory

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""How often unchanged values are handed to the executor, which replaces what others wrote."""

Levels = tuple[Sequence[Update], Sequence[Update], Sequence[Update]]
"""Updates of QoS directories, pods and containers."""


@dataclass(frozen=True)
class _Known:
    """A pod's values, and what they were computed from."""

    pod: Pod
    own: PodMemoryQOSConfig | None
    values: PodMemory


class CgroupReconcile(QOSPlugin):
    """The memory QoS strategy."""

    name: ClassVar[str] = "CgroupReconcile"
    feature: ClassVar[str | None] = CGROUP_RECONCILE
    interval_flag: ClassVar[str | None] = RECONCILE_INTERVAL
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "cgroup v2, or a kernel with memory.min, memory.low and memory.high in cgroup v1",
            "cgroup files of the node, writable",
            "NodeSLOs with resourceQOSStrategy (koord-manager creates them)",
        )
    )

    def __init__(self, args: PluginArgs, handle: Handle, *, page_size: int | None = None) -> None:
        super().__init__(args, handle)
        self._page_size = page_size or os.sysconf("SC_PAGE_SIZE")
        self._known: dict[str, _Known] = {}
        self._from: tuple[ResourceQOSStrategy, int] | None = None
        self._levels: Levels = ((), (), ())
        self._written_at = float("-inf")
        self._files: frozenset[str] | None = None

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds."""
        rounds.declare_interval(flags)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await rounds.run(self.handle, self.name, self.reconcile)

    def reconcile(self) -> None:
        """Write what has changed; what has not changed is checked every few seconds."""
        states = self.handle.states
        slo, node = states.node_slo(), states.node()
        strategy = slo.resource_qos_strategy if slo is not None else None
        if strategy is None or node is None or not node.status.allocatable:
            return
        now = self.handle.clock.monotonic()
        changed = self._compute(strategy, node, states.pods())
        if changed or now - self._written_at >= CHECK_SECONDS:
            self.handle.executor.leveled_update_batch([self._supported(level) for level in self._levels])
            self._written_at = now

    def levels(self, strategy: ResourceQOSStrategy, node: Node, pods: Sequence[PodMeta]) -> Levels:
        """Return all wanted values. Inactive pods, and pods without settings, are left alone."""
        self._compute(strategy, node, pods)
        return self._levels

    def _compute(self, strategy: ResourceQOSStrategy, node: Node, pods: Sequence[PodMeta]) -> bool:
        """Compute what changed since the last round; return whether anything did."""
        node_memory = quantity.value(node.status.allocatable.get("memory", 0))
        same = self._from is not None and self._from[0] is strategy and self._from[1] == node_memory
        known = self._known if same else {}
        found: dict[str, _Known] = {}
        for meta in pods:
            if meta.pod.status.phase not in ("Pending", "Running"):
                continue
            item = self._of_pod(meta, strategy, node_memory, known.get(meta.pod.metadata.uid))
            if item is not None:
                found[meta.pod.metadata.uid] = item
        if same and found.keys() == known.keys() and all(found[uid] is known[uid] for uid in found):
            return False
        self._from, self._known = (strategy, node_memory), found
        values = [item.values for item in found.values()]
        classes = {kube_qos: settings.of_kube_qos(strategy, kube_qos) for kube_qos in memory.KUBE_QOS}
        self._levels = (
            memory.of_qos(values, classes, self.handle.layout),
            [update for item in values for update in item.pod],
            [update for item in values for update in item.containers],
        )
        return True

    def _of_pod(
        self, meta: PodMeta, strategy: ResourceQOSStrategy, node_memory: int, known: _Known | None
    ) -> _Known | None:
        pod = meta.pod
        own = known.own if known is not None and known.pod is pod else settings.of_annotation(pod)
        policies = self.handle.pod_policies
        if policies.has(MEMORY_QOS) and settings.of_annotation(pod) is None:
            own = policies.policy(MEMORY_QOS, pod)
        if known is not None and known.pod is pod and known.own == own:
            return known
        wanted = settings.of_pod(pod, strategy, own)
        if wanted is None:
            return None
        try:
            values = memory.of_pod(meta, wanted, self.handle.layout, node_memory, self._page_size)
        except ValueError as error:
            log.warning("memory QoS of %s: %s", pod.metadata.key, error)
            return None
        return _Known(pod, own, values)

    def _supported(self, level: Iterable[Update]) -> list[Update]:
        """Leave out files that the kernel does not have; asked for once, when there are pods."""
        if self._files is None:
            parent = self.handle.layout.kubepods
            if not self.handle.cgroups.exists(parent, "memory"):
                return []
            reasons = {file: self.handle.cgroups.supported(file, parent) for file in memory.FILES}
            self._files = frozenset(file for file, reason in reasons.items() if reason is None)
            missing = [file for file in memory.FILES if file not in self._files]
            if missing:
                log.info("%s: this node has no %s", self.name, ", ".join(missing))
        return [update for update in level if update.resource in self._files]
