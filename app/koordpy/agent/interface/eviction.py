"""How plugins evict pods."""

from collections.abc import Callable
from typing import Protocol

from koordpy.api.core import Pod


class EvictionExecutor(Protocol):
    """Evicts pods of this node; all plugins share one, so that it knows each eviction.

    Source: Koordinator, `pkg/koordlet/qosmanager/plugins/util/evict.go`.
    """

    async def evict(self, pod: Pod, reason: str, message: str) -> bool:
        """Evict a pod, and return whether that was started; failures are reported, not raised."""
        ...

    def is_evicted(self, pod: Pod) -> bool:
        """Return whether a pod was evicted a short time ago, so that it may still be terminating."""
        ...


ExecutorInitializer = Callable[[EvictionExecutor, bool], EvictionExecutor | None]
"""Makes an executor from the one that evicts by the API server, and whether only that is allowed.

None: evict as usual.
"""


class Eviction(EvictionExecutor, Protocol):
    """Evicts pods as configured: by killing containers, by the API server, or by a plugin's executor."""

    def customize(self, name: str, initializer: ExecutorInitializer) -> None:
        """Let another executor evict; called in a plugin's `setup`, if its gate is on.

        `name` is the plugin's. Raises ValueError if another plugin's executor evicts already.
        """
        ...
