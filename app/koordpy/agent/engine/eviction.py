"""How pods of this node are evicted: by killing their containers, by the API server, or by a plugin.

Source: Koordinator, `pkg/koordlet/qosmanager/plugins/util/evict.go`.
"""

import logging
from typing import Final

from koordpy.agent.cgroups.containers import ContainerKiller
from koordpy.agent.engine.eviction_metrics import EvictionMetrics
from koordpy.agent.engine.evictor import Evictor
from koordpy.agent.interface.audit import Audit, NoAudit
from koordpy.agent.interface.eviction import EvictionExecutor, ExecutorInitializer
from koordpy.agent.interface.flags import FlagSet
from koordpy.api.core import Pod

log = logging.getLogger(__name__)

ONLY_BY_API: Final = "only-evict-by-api"


class NodeEviction:
    """Evicts pods of one node for all plugins.

    Without `--only-evict-by-api`, containers are killed, and that always counts as evicted: the kubelet
    restarts them or not by the pod's restart policy.
    """

    def __init__(
        self,
        flags: FlagSet,
        evictor: Evictor,
        killer: ContainerKiller,
        metrics: EvictionMetrics,
        audit: Audit | None = None,
    ) -> None:
        self._audit = audit or NoAudit()
        self._flags, self._evictor, self._killer, self._metrics = flags, evictor, killer, metrics
        self._custom: tuple[str, EvictionExecutor] | None = None

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare how pods are evicted."""
        flags.declare(
            ONLY_BY_API, False, "evict pods through the API server instead of killing their containers"
        )

    @property
    def only_by_api(self) -> bool:
        """Whether containers are never killed."""
        return self._flags.boolean(ONLY_BY_API)

    def customize(self, name: str, initializer: ExecutorInitializer) -> None:
        """Let a plugin's executor evict from now on, if it makes one. Raises ValueError for a second one."""
        executor = initializer(self._evictor, self.only_by_api)
        if executor is None:
            return
        if self._custom is not None:
            raise ValueError(
                f"{name} cannot evict pods: the eviction executor of {self._custom[0]} does already"
            )
        self._custom = name, executor
        log.info("pods are evicted by the executor of %s", name)

    def is_evicted(self, pod: Pod) -> bool:
        """Return whether a pod was evicted a short time ago."""
        return (self._evictor if self._custom is None else self._custom[1]).is_evicted(pod)

    async def evict(self, pod: Pod, reason: str, message: str) -> bool:
        """Evict a pod; return whether that was started."""
        if self._custom is not None:
            return await self._custom[1].evict(pod, reason, message)
        if self.only_by_api:
            return await self._evictor.evict(pod, reason, message)
        meta = pod.metadata
        self._audit.log(0, reason, message, type="pod", namespace=meta.namespace, name=meta.name)
        log.info("kill containers of %s, reason: %s, message: %s", pod.metadata.key, reason, message)
        if self._killer.kill(pod, message):
            self._metrics.count(pod, reason)
        return True
