"""What carrying out jobs needs of the object limiters."""

from typing import Protocol

from koordpy.api.core import Pod


class Limiter(Protocol):
    """Limits the evictions of the pods of one object."""

    def exceeded(self, pod: Pod) -> bool:
        """Return whether a pod must not be evicted now."""
        ...

    def track(self, pod: Pod) -> None:
        """Count the eviction of a pod."""
        ...
