"""Pods that are the same to the descheduler: of the same owners, with the same images.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removeduplicates`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from koordpy.api import node_affinity, taints
from koordpy.api.core import Node, Pod
from koordpy.api.node_affinity import NodeAffinityError
from koordpy.descheduling.toolkit.node_fit_snapshot import placement_key


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """An owner, and the images of its pods."""

    namespace: str
    kind: str
    name: str
    images: str


def owner_keys(pod: Pod) -> list[OwnerKey]:
    """Return the keys of a pod's owners."""
    images = "#".join(sorted(container.image for container in pod.spec.containers))
    return [
        OwnerKey(pod.metadata.namespace, owner.kind, owner.name, images)
        for owner in pod.metadata.owner_references
    ]


def identity(pod: Pod) -> tuple[str, ...]:
    """Return what is equal for duplicates: each owner with each image."""
    namespace = pod.metadata.namespace
    return tuple(
        sorted(
            f"{namespace}/{owner.kind}/{owner.name}/{container.image}"
            for owner in pod.metadata.owner_references
            for container in pod.spec.containers
        )
    )


class Targets:
    """On which of a run's nodes pods could run; computed once for equal pods."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._known: dict[bytes, frozenset[str]] = {}

    def of(self, pod: Pod) -> frozenset[str]:
        """Return the names of the nodes whose taints and labels allow a pod; none if that is only one."""
        key = placement_key(pod)
        known = self._known.get(key)
        if known is None:
            names = frozenset(node.metadata.name for node in self._nodes if _allows(node, pod))
            known = self._known[key] = names if len(names) > 1 else frozenset()
        return known


def _allows(node: Node, pod: Pod) -> bool:
    """Whether labels and taints of a node allow a pod; an invalid affinity term allows it."""
    if taints.find_untolerated(node.spec.taints, pod.spec.tolerations, comparison_operators=True):
        return False
    try:
        return node_affinity.required(pod.spec).check(node.metadata.labels, node.metadata.name)
    except NodeAffinityError:
        return True


class Duplicates:
    """The duplicates on each node: all but the first of equal pods."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._occurrences: Counter[OwnerKey] = Counter()
        self._duplicates: dict[OwnerKey, dict[str, list[Pod]]] = {}
        self._possible: set[OwnerKey] = set()

    def expect(self, pods: Iterable[Pod]) -> None:
        """Learn which owners may have duplicates on a node, before pods that may not be evicted are known."""
        seen = set()
        for pod in pods:
            like = identity(pod)
            if like in seen:
                self._possible.update(owner_keys(pod))
            seen.add(like)

    def matters(self, pod: Pod) -> bool:
        """Return whether one of a pod's owners may have duplicates; `add` needs no others."""
        return any(key in self._possible for key in owner_keys(pod))

    def add(self, node_name: str, pods: Iterable[Pod]) -> None:
        """Add the evictable pods of a node."""
        seen = set()
        for pod in pods:
            like, keys = identity(pod), owner_keys(pod)
            self._occurrences.update(keys)
            if like in seen:
                for key in keys:
                    self._duplicates.setdefault(key, {}).setdefault(node_name, []).append(pod)
            seen.add(like)

    @property
    def owners(self) -> Iterator[OwnerKey]:
        """The owners that have duplicates."""
        return iter(self._duplicates)

    def of(self, owner: OwnerKey) -> Iterable[Sequence[Pod]]:
        """Return an owner's duplicates, by node."""
        return self._duplicates[owner].values()

    def most(self, owner: OwnerKey, pod: Pod | None = None) -> int | None:
        """Return how many pods of an owner a node may have, None if there are fewer than two nodes for them.

        The average over the nodes where its duplicates, and a given pod, could run, rounded up.
        """
        of_owner = self._duplicates.get(owner, {}).values()
        kinds = {self._targets.of(duplicate) for pods in of_owner for duplicate in pods}
        if pod is not None:
            kinds.add(self._targets.of(pod))
        targets = frozenset[str]().union(*kinds)
        if len(targets) < 2:
            return None
        return -(-max(self._occurrences[owner], 1) // len(targets))
