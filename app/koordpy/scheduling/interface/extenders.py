"""The interface of a scheduler extender that preemption uses."""

from collections.abc import Mapping
from typing import Protocol

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeTable

from .filtering import Victims


class ExtenderError(Exception):
    """An extender did not answer, returned an unexpected answer, or reported an error."""


class PreemptExtender(Protocol):
    """An extender of the scheduler, as far as preemption is concerned."""

    @property
    def name(self) -> str:
        """The name in messages."""
        ...

    @property
    def ignorable(self) -> bool:
        """Whether scheduling continues without it if it fails."""
        ...

    @property
    def supports_preemption(self) -> bool:
        """Whether it supports preemption."""
        ...

    def is_interested(self, pod: Pod) -> bool:
        """Return whether the extender handles a pod."""
        ...

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], nodes: NodeTable) -> dict[str, Victims]:
        """Return the victims by node name to continue with. Raises ExtenderError."""
        ...
