"""An extender of the scheduler, as far as preemption has to ask it."""

from collections.abc import Mapping
from typing import Protocol

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeTable

from .filtering import Victims


class ExtenderError(Exception):
    """An extender did not answer, answered something else than expected, or reported an error."""


class PreemptExtender(Protocol):
    """An extender of the scheduler, as far as preemption is concerned."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def ignorable(self) -> bool:
        """Whether scheduling goes on without it when it fails."""
        ...

    @property
    def supports_preemption(self) -> bool:
        """Whether it wants to be asked."""
        ...

    def is_interested(self, pod: Pod) -> bool:
        """Return whether a pod concerns it."""
        ...

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], nodes: NodeTable) -> dict[str, Victims]:
        """Return the victims by node name to go on with. Raises ExtenderError."""
        ...
