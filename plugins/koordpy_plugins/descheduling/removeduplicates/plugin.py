"""RemoveDuplicates: evict pods of one owner from a node that has more than its share of them.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removeduplicates`.
"""

from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects

from .args import RemoveDuplicatesArgs
from .duplicates import Duplicates, Targets, identity, owner_keys


class RemoveDuplicates(UpstreamPlugin):
    """Balance by owners."""

    name = "RemoveDuplicates"
    args: RemoveDuplicatesArgs

    def __init__(self, args: RemoveDuplicatesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, None)
        self._excluded = frozenset(args.exclude_owner_kinds)
        self._duplicates: Duplicates | None = None
        """Of the present run."""

    def _considers(self, pod: Pod) -> bool:
        owners = pod.metadata.owner_references
        return (
            bool(owners) and self._selects(pod) and not any(owner.kind in self._excluded for owner in owners)
        )

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Find the duplicates of all nodes, then evict those beyond the average of each owner."""
        duplicates = self._duplicates = Duplicates(Targets(nodes))
        pace = self.pace()
        try:
            by_node: dict[str, list[Pod]] = {}
            async for node in in_turns(nodes, pace):
                name = node.metadata.name
                by_node[name] = [pod for pod in self.handle.pods.active_on(name) if self._considers(pod)]
                duplicates.expect(by_node[name])
            async for node in in_turns(nodes, pace):
                duplicates.add(
                    node.metadata.name,
                    (
                        pod
                        for pod in by_node[node.metadata.name]
                        if duplicates.matters(pod) and self.handle.evictor.filter(pod)
                    ),
                )
            for owner in duplicates.owners:
                await pace.keep()
                most = duplicates.most(owner)
                if most is None:
                    for pods in duplicates.of(owner):
                        self.handle.evictor.skipped(pods, "labels and taints leave it fewer than two nodes")
                    continue
                for pods in duplicates.of(owner):
                    for pod in pods[most - 1 :]:
                        await self.evict(
                            pod,
                            f"its node has {len(pods) + 1} pods like it of {owner.kind} {owner.name}; "
                            f"the average is {most}, rounded up",
                        )
        finally:
            self._duplicates = None
        return SUCCESS

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node that would have more such pods than the average of an owner."""
        if not self._considers(pod):
            return None
        like = identity(pod)
        count = 1 + sum(1 for other in pods if self._considers(other) and identity(other) == like)
        if count == 1:
            return None
        for owner in owner_keys(pod):
            most = self._duplicates.most(owner, pod) if self._duplicates is not None else 1
            if most is not None and count > most:
                return (
                    f"the node would have {count} pods like it of {owner.kind} {owner.name}; "
                    f"the average is {most}, rounded up"
                )
        return None
