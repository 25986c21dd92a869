"""The ElasticQuota controller: status, metrics and runtime of quotas, while this process leads.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/controller.go`.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import ClusterEvent

from ..metrics import STATUS
from ..state.quota_info import QuotaInfo
from ..state.source import Trees
from .special_quotas import SpecialQuotas
from .status import StatusWriter

NAME: Final = "ElasticQuotaController"

STATUS_INTERVAL: Final = 1.0
RUNTIME_INTERVAL: Final = 1.0
"""Koordinator's is 10 seconds, after which users see what a quota may use; unchanged quotas cost nothing."""
LONGEST_PAUSE: Final = 30.0
"""Seconds between two passes over the quotas while writes fail."""


class ElasticQuotaController:
    """Runs in the leader; every process follows quotas."""

    name = NAME

    def __init__(self, args: ElasticQuotaArgs, handle: Handle, trees: Trees) -> None:
        self._args, self._handle, self._trees = args, handle, trees
        self._quotas = handle.cluster.store(ElasticQuota)
        self.special = SpecialQuotas(args, handle)
        self.status = StatusWriter(handle, trees)
        self._scaled_anew = 0

    async def run(self) -> None:
        """Run until cancelled, starting with every quota."""
        self.status.forget()
        STATUS.source = self._records
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.special.create())
                tasks.create_task(self._write_status())
                if self._args.enable_runtime_quota:
                    tasks.create_task(self._refresh())
        finally:
            STATUS.source = None

    def refresh_runtime(self) -> None:
        """Bring the runtime of all quotas up to date.

        Minimums are scaled along the path of a refreshed quota alone, so that its siblings may get room later
        and without an event; pods that they refused are then checked again.
        """
        scaled_anew = 0
        for manager in self._trees.managers:
            manager.refresh_all()
            scaled_anew += manager.scaled_anew
        if scaled_anew != self._scaled_anew:
            self._scaled_anew = scaled_anew
            quota = next(iter(self._quotas), None)
            if quota is not None:
                self._handle.queue.move_all(ClusterEvent(ElasticQuota, new=quota))

    async def _write_status(self) -> None:
        pause = STATUS_INTERVAL
        while True:
            ok = await self.status.write()
            pause = STATUS_INTERVAL if ok else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _refresh(self) -> None:
        while True:
            self.refresh_runtime()
            await asyncio.sleep(RUNTIME_INTERVAL)

    def _records(self) -> Iterator[tuple[ElasticQuota, QuotaInfo, str]]:
        known: set[str] = set()
        managers = self._trees.managers
        for quota in list(self._quotas):
            name = quota.metadata.name
            manager = managers.of_quota(name)
            info = manager.get(name)
            if info is not None and name not in known:
                known.add(name)
                yield quota, info, manager.tree
