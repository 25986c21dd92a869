"""ResctrlReconcile: shares of the last-level cache and of the memory bandwidth for QoS classes.

Pods of the classes LSR (with LSE), LS and BE share a control group of the resctrl file system each. Its
limits come from NodeSLO `resourceQOSStrategy`; threads of pods whose class is enabled are moved into it. Pods
with the annotation `node.koordinator.sh/resctrl` have groups of their own, which a runtime hook keeps.

Rules: Koordinator, `pkg/koordlet/qosmanager/plugins/resctrl`.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from koordpy.agent.interface import (
    NODE_CPU_INFO,
    RECONCILE_INTERVAL,
    CgroupError,
    FlagSet,
    Handle,
    PodMeta,
    QOSPlugin,
    Update,
)
from koordpy.agent.interface.gates import RDT_RESCTRL
from koordpy.agent.toolkit import pod_cgroups, resctrl, rounds
from koordpy.agent.toolkit.resctrl import PRIVILEGES
from koordpy.api.core import Pod
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.resource_qos import ResourceQOSStrategy

from . import mounting, wanted
from .wanted import GROUPS, Caches

log = logging.getLogger(__name__)

SCHEMATA_REASON = "UpdateResctrlSchemata"
TASKS_REASON = "ApplyCatL3GroupTasks"


class ResctrlReconcile(QOSPlugin):
    """The resctrl strategy."""

    name: ClassVar[str] = "ResctrlReconcile"
    feature: ClassVar[str | None] = RDT_RESCTRL
    interval_flag: ClassVar[str | None] = RECONCILE_INTERVAL
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "processors with cache and memory bandwidth allocation (flags cat_l3 and mba)",
            "the resctrl file system, mounted on the node",
            "NodeSLOs with resourceQOSStrategy (koord-manager creates them)",
        ),
        privileges=PRIVILEGES,
    )

    def __init__(
        self, args: PluginArgs, handle: Handle, *, mount: Callable[[Path], None] = mounting.mount
    ) -> None:
        super().__init__(args, handle)
        self.files = resctrl.ResctrlFiles(handle.resctrl_root)
        self._mount = mount
        self._problem = ""
        self._caches: Caches | None = None
        self._schemata_of: tuple[ResourceQOSStrategy, Caches] | None = None
        self._schemata: list[Update] = []
        self._found: dict[str, tuple[Pod, tuple[str, ...]]] = {}

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds."""
        rounds.declare_interval(flags)

    async def run(self) -> None:
        """Run rounds until cancelled, if the processors can allocate."""
        reason = self.refusal()
        if reason is not None:
            log.info("%s is off: %s", self.name, reason)
            await asyncio.Event().wait()
        await rounds.run(self.handle, self.name, self.reconcile)

    def refusal(self) -> str | None:
        """Return why the processors of this node cannot be used; None if they can."""
        try:
            found = resctrl.processors(self.handle.proc_root)
        except OSError as error:
            return f"the processors are not known: {error}"
        return None if found.can_allocate else "the processors cannot allocate cache and memory bandwidth"

    def reconcile(self) -> None:
        """Create the groups if need be, then update their limits and their threads."""
        slo = self.handle.states.node_slo()
        strategy = slo.resource_qos_strategy if slo is not None else None
        if strategy is None:
            return
        try:
            self._create_groups()
            caches = self._read_caches()
        except OSError as error:
            self._report(str(error))
            return
        self._report("")
        known = self._schemata_of
        if known is None or known[0] is not strategy or known[1] != caches:
            self._schemata, self._schemata_of = _schemata(strategy, caches), (strategy, caches)
        self.handle.executor.update_batch(self._schemata)
        self._move_tasks(strategy)

    def _create_groups(self) -> None:
        if not self.files.is_mounted:
            self._mount(self.files.root)
            if not self.files.is_mounted:
                raise OSError(f"{self.files.cbm_file} does not exist: resctrl cannot allocate the cache")
            log.info("mounted the resctrl file system at %s", self.files.root)
            self._caches = None
        for group in GROUPS:
            if not self.files.group(group).is_dir():
                try:
                    self.handle.executor.create_group(group)
                except CgroupError as error:
                    log.warning("resctrl group %s: %s", group, error)

    def _read_caches(self) -> Caches:
        if self._caches is None:
            ids = self.files.cache_ids()
            cpus = self.handle.metrics.fact(NODE_CPU_INFO)
            self._caches = Caches(
                cbm=self.files.cbm_file.read_text().strip(),
                vendor=resctrl.processors(self.handle.proc_root).vendor,
                count=len({each.l3 for each in cpus.processors}) if cpus is not None else len(ids),
                ids=ids,
            )
        return self._caches

    def _move_tasks(self, strategy: ResourceQOSStrategy) -> None:
        pods = [meta for meta in self.handle.states.pods() if wanted.group_of(meta.pod, strategy) is not None]
        uids = {meta.pod.metadata.uid for meta in pods}
        self._found = {uid: found for uid, found in self._found.items() if uid in uids}
        if not pods:
            return
        added = wanted.tasks(strategy, pods, self._grouped(), self._directories, self.handle.cgroups.threads)
        for group, ids in added.items():
            for task in ids:
                update = Update("resctrl.tasks", group, str(task), TASKS_REASON)
                try:
                    self.handle.executor.update(update, cached=False)
                except CgroupError as error:  # threads end at any time
                    log.debug("resctrl group %s: thread %d: %s", group, task, error)

    def _grouped(self) -> dict[str, frozenset[int]]:
        found = {}
        for group in GROUPS:
            try:
                found[group] = self.files.tasks(group)
            except (OSError, ValueError) as error:
                log.warning("resctrl group %s: its threads cannot be read: %s", group, error)
        return found

    def _directories(self, meta: PodMeta) -> tuple[str, ...]:
        """The cgroups of a pod's containers and sandbox, found once for each version of the pod."""
        known = self._found.get(meta.pod.metadata.uid)
        if known is not None and known[0] is meta.pod:
            return known[1]
        containers = tuple(wanted.container_directories(meta, self.handle.layout))
        sandbox = pod_cgroups.sandbox(meta, self.handle.layout, self.handle.cgroups)
        if sandbox is None:
            return containers
        self._found[meta.pod.metadata.uid] = meta.pod, (*containers, sandbox)
        return (*containers, sandbox)

    def _report(self, problem: str) -> None:
        """Log a problem once, until it is another one or gone."""
        if problem and problem != self._problem:
            log.warning("%s: %s", self.name, problem)
        self._problem = problem


def _schemata(strategy: ResourceQOSStrategy, caches: Caches) -> list[Update]:
    formula = f"resctrlQOS of the class, cache mask {caches.cbm}, {caches.count} L3 caches"
    return [
        Update("resctrl.schemata", group, line.rstrip(";\n"), SCHEMATA_REASON, formula)
        for group, line in wanted.schemata(strategy, caches)
        if line
    ]
