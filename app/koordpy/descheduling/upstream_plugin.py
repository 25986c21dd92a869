"""The base of the plugins that Koordinator takes from the Kubernetes descheduler, and what they share.

Koordinator adapts them to its framework: each can be enabled at both points and reports an error when it runs
at one that it does not implement; filters before an eviction are the filters of candidates again, so nothing
that costs more, such as a fit on other nodes, is checked for them; and whatever keeps a pod from being
evicted, the plugin goes on with the next pod. Source: Koordinator,
`pkg/descheduler/framework/plugins/kubernetes`.
"""

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from koordpy.api import label_selector
from koordpy.api.core import Node, Pod
from koordpy.api.meta import LabelSelector

from .interface import BalancePlugin, DeschedulePlugin, EvictOptions, Status
from .toolkit.pace import Pace
from .toolkit.pods import Namespaces, PodFilter, in_namespaces
from .toolkit.upstream_args import UpstreamArgs


class UpstreamPlugin(DeschedulePlugin, BalancePlugin):
    """Such a plugin; it overrides one of the two points."""

    args: UpstreamArgs
    args_api_version: ClassVar[str] = ""  # arguments may carry any type

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Report that the plugin does not implement this point."""
        return Status(f"{self.name} does not implement DeschedulePlugin")

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Report that the plugin does not implement this point."""
        return Status(f"{self.name} does not implement BalancePlugin")

    def pace(self) -> Pace:
        """Return the pace of a new run."""
        return Pace(self.handle.clock)

    async def evict(self, pod: Pod, reason: str) -> bool:
        """Evict a pod; return whether that succeeded."""
        return await self.handle.evictor.evict(pod, EvictOptions(reason=reason))


def selects(namespaces: Namespaces | None, selector: LabelSelector | None) -> PodFilter:
    """Return a filter for pods by namespace and labels; None selects all."""
    in_them = in_namespaces(namespaces)
    if selector is None:
        return in_them
    matcher = label_selector.of(selector)
    return lambda pod: in_them(pod) and matcher.matches(pod.metadata.labels)


async def in_turns(nodes: Sequence[Node], pace: Pace) -> AsyncIterator[Node]:
    """Yield nodes, and let other tasks run now and then: rounds over big clusters take seconds."""
    for node in nodes:
        await pace.keep()
        yield node
