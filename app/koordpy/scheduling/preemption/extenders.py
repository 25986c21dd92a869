"""Calls to extenders with the victims that preemption proposes.

Source: Kubernetes, `callExtenders` in `pkg/scheduler/framework/preemption`.
"""

import logging
from collections.abc import Sequence

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.interface import ExtenderError, PreemptExtender, Victims
from koordpy.scheduling.interface.status import SUCCESS, Status

log = logging.getLogger(__name__)


async def agreed(
    extenders: Sequence[PreemptExtender], pod: Pod, candidates: dict[str, Victims], nodes: NodeTable
) -> tuple[dict[str, Victims], Status]:
    """Call the extenders in order, each with the result of the previous one. Return the rest, or an Error."""
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
