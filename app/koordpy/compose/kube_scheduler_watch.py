"""Finds out, now and then, whether kube-scheduler gates the gangs of Kubernetes' own API itself."""

import asyncio
import logging
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.scheme import DecodeError
from koordpy.cluster import kube_scheduler_gates
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.lib import supervise
from koordpy.settings import KubeSchedulerGangScheduling

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 300.0
_FIRST_SECONDS: Final = 5.0


class KubeSchedulerWatch:
    """Tells the cluster's `KubernetesGangs` what the setting says or, with `auto`, what kube-scheduler's pods
    show.

    Until they have been read once, and where there are none, kube-scheduler is taken not to gate gangs.
    """

    def __init__(self, cluster: Cluster, client: Client, setting: KubeSchedulerGangScheduling) -> None:
        self._cluster, self._client, self._setting = cluster, client, setting
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Apply the setting, or look for kube-scheduler's pods, and then regularly."""
        if self._setting != "auto":
            self._leave(self._setting == "enabled", "extender.kubeSchedulerGangScheduling")
            return
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self.look()
        except TimeoutError:
            log.warning("kube-scheduler's pods cannot be listed yet")
        self._task = asyncio.create_task(supervise.forever("watch of kube-scheduler's gates", self._run))

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Read the command lines of kube-scheduler's pods once; if they cannot be read, nothing changes."""
        try:
            found = await kube_scheduler_gates.kube_schedulers(self._client)
        except (ApiError, ConnectionFailed, DecodeError) as error:
            log.info("whether kube-scheduler gates gangs itself is not known: %s", error)
            return
        gating = [each.pod for each in found if each.gates_gangs]
        self._leave(bool(gating), f"feature gates of {', '.join(gating or [each.pod for each in found])}")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.look()

    def _leave(self, leave: bool, reason: str) -> None:
        gangs = self._cluster.kubernetes_gangs
        if gangs is None or gangs.left_to_kube_scheduler == leave:
            return
        gangs.leave_to_kube_scheduler(leave, self._cluster.store(Pod))
        log.warning(
            "gangs of pods with spec.workloadRef or spec.schedulingGroup are %s (%s)",
            "left to kube-scheduler" if leave else "scheduled by koordpy, if its feature gates say so",
            reason,
        )
