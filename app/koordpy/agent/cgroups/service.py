"""The executor as a service of the agent: its flags, its memory of changes, and cleaning up every minute."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

from koordpy.agent.cgroups import kubelet, opened
from koordpy.agent.cgroups.changes import Changes, ChangesError
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.explanation import directory_of, explain
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.states import States
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

FORCE_UPDATE = "resource-force-update-seconds"
CHANGES_DIR = "changes-dir"
_SECONDS = 60.0


class ExecutorService:
    """Constructs the executor of a node, and keeps its caches small."""

    name: ClassVar[str] = "executor"

    def __init__(
        self,
        files: CgroupFiles,
        flags: FlagSet,
        clock: Clock,
        *,
        kubelet_dir: Path = Path("/var/lib/kubelet"),
        audit_dir: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.changes = _changes(files, flags.text(CHANGES_DIR), audit_dir)
        self.executor = Executor(
            files, clock, force_update=float(flags.integer(FORCE_UPDATE)), changes=self.changes
        )
        self.kubelet = kubelet.find(kubelet_dir, files.proc_root)
        if files.unified:
            self.executor.writer.left_alone |= self.kubelet.left_alone
        self._files, self._sleep = files, sleep

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare koordlet's flag of the executor, and where changes are remembered."""
        flags.declare(FORCE_UPDATE, 60, "age in seconds at which an unchanged value is written again")
        flags.declare(
            CHANGES_DIR,
            opened.FOLDER,
            "folder in which original values are remembered, for koordpy qos; empty: only in memory",
        )

    async def run(self) -> None:
        """Forget what ended, every minute."""
        while True:
            await self._sleep(_SECONDS)
            self.executor.collect()

    def not_ready(self) -> str | None:
        """Return None: there is nothing to wait for."""
        return None

    def explain(self, target: str, states: States) -> dict[str, Any]:
        """Return what was changed below a path, or of a pod given as NAMESPACE/NAME; "" is all."""
        for meta in states.pods():
            pod = meta.pod.metadata
            if target in (f"{pod.namespace}/{pod.name}", pod.uid):
                target = meta.cgroup_dir
                break
        self.changes.refresh()
        directory = directory_of(self._files, target)
        return explain(self._files, self.changes, directory, self.executor.writer.left_alone)


def _changes(files: CgroupFiles, folder: str, audit_dir: str) -> Changes:
    try:
        changes = opened.on_node(folder, files, audit_dir)
        with changes.exclusive(wait=True):
            if changes.pauses.end_with_restart():
                changes.save_pauses()
    except ChangesError as error:
        log.warning("what is changed on this node is not remembered over restarts: %s", error)
        return Changes()
    if changes.pauses:
        names = ", ".join(str(pause) for pause in changes.pauses)
        log.warning("left alone because it was undone, until `koordpy qos enable`: %s", names)
    return changes
