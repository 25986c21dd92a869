"""What extenders say to the victims that preemption has in mind.

Source: Kubernetes, `callExtenders` in `pkg/scheduler/framework/preemption`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.interface import Victims
from koordpy.scheduling.status import SUCCESS, Status

log = logging.getLogger(__name__)


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
        """Tell whether a pod concerns it."""
        ...

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], nodes: NodeTable) -> dict[str, Victims]:
        """Return the victims by node name to go on with. Raises ExtenderError."""
        ...


async def agreed(
    extenders: Sequence[PreemptExtender], pod: Pod, candidates: dict[str, Victims], nodes: NodeTable
) -> tuple[dict[str, Victims], Status]:
    """Ask one extender after another; each sees what the one before left. Return the rest, or an Error."""
    for extender in extenders:
        if not candidates:
            break
        if not extender.supports_preemption or not extender.is_interested(pod):
            continue
        try:
            left = await extender.preempt(pod, candidates, nodes)
        except ExtenderError as error:
            if extender.ignorable:
                log.warning("skipping extender %s, which is ignorable: %s", extender.name, error)
                continue
            return {}, Status.failed(error)
        for name in [name for name, victims in left.items() if not victims.pods]:
            if not extender.ignorable:
                return {}, Status.failed(f'expected at least one victim pod on node "{name}"')
            del left[name]
        candidates = left
    return candidates, SUCCESS
