"""The service that reads the tasks of all containers of the node (`--enable-pod-taskids`)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from koordpy.agent.interface.cgroups import CgroupError, Cgroups
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet_pods import INTERVAL_FLAG

ENABLE_FLAG: Final = "enable-pod-taskids"
_PREFIXES: Final = ("cri-containerd-", "docker-", "pouch-", "crio-")


class PodTaskIds:
    """Reads the task ids at the interval at which kubelet is asked for pods."""

    name: Final = "pod-task-ids"

    def __init__(
        self,
        states: StatesInformer,
        cgroups: Cgroups,
        flags: FlagSet,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._states, self._cgroups, self._sleep = states, cgroups, sleep
        self._enabled = flags.boolean(ENABLE_FLAG)
        self._interval = flags.duration(INTERVAL_FLAG).total_seconds()

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the switch."""
        flags.declare(ENABLE_FLAG, False, "know the ids of the tasks of pods' containers")

    async def run(self) -> None:
        """Read until cancelled."""
        if not self._enabled or self._interval <= 0:
            await asyncio.Event().wait()
        while True:
            self.read()
            await self._sleep(self._interval)

    def not_ready(self) -> str | None:
        """Return None."""
        return None

    def read(self) -> None:
        """Read the tasks of all pods that have not terminated."""
        self._states.set_task_ids(
            {
                meta.pod.metadata.uid: self._of_pod(meta)
                for meta in self._states.pods()
                if not meta.pod.is_terminal
            }
        )

    def _of_pod(self, meta: PodMeta) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        known: set[str] = set()
        runtime = ""
        for status in meta.pod.status.container_statuses:
            try:
                directory = self._states.layout.container(meta.cgroup_dir, status.container_id)
                found[status.container_id] = self._cgroups.threads(directory)
            except (ValueError, CgroupError):  # not created yet, or gone
                continue
            known.add(directory)
            runtime = status.container_id.partition("://")[0]
        others = [
            path
            for path, depth in self._cgroups.walk(meta.cgroup_dir, 1, "cpu")
            if depth == 1 and path not in known
        ]
        if runtime and len(others) == 1:  # the sandbox is the container without a status
            with suppress(CgroupError):
                found[f"{runtime}://{_container_id(others[0])}"] = self._cgroups.threads(others[0])
        return found


def _container_id(directory: str) -> str:
    name = directory.rpartition("/")[2].removesuffix(".scope")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
