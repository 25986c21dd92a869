"""Which pods have others in their domain that they must not share it with.

The pods that a term selects are counted once by domain, for all pods with that term. A node is a domain of
its own besides the one of its label. Namespace selectors are ignored, and pods of the same name in any
namespace are the pod itself, as in the descheduler. Source: `sigs.k8s.io/descheduler`, `pkg/utils`
(`CheckPodsWithAntiAffinityExist`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from koordpy.api import label_selector
from koordpy.api.core import Node, Pod, PodAffinityTerm
from koordpy.api.label_selector import Selector, SelectorError
from koordpy.descheduling.toolkit.label_index import LabelIndex

_Key = tuple[tuple[str, ...], bytes, str]


def terms_of(pod: Pod) -> list[PodAffinityTerm]:
    """Return the required anti-affinity terms of a pod."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else []


def has_terms(pod: Pod) -> bool:
    """Return whether a pod has required anti-affinity."""
    return bool(terms_of(pod))


def repels(pod: Pod, other: Pod) -> bool:
    """Return whether a term of a pod selects another pod. An invalid term ends the check."""
    if pod.metadata.name == other.metadata.name:
        return False
    try:
        return any(
            other.metadata.namespace in (term.namespaces or [pod.metadata.namespace])
            and label_selector.of(term.label_selector).matches(other.metadata.labels)
            for term in terms_of(pod)
        )
    except SelectorError:
        return False


class _Selected:
    """The pods that one term selects, counted by domain and name."""

    def __init__(self, namespaces: frozenset[str], selector: Selector, topology_key: str) -> None:
        self.namespaces = namespaces
        self.selector = selector
        self.topology_key = topology_key
        self.by_node: dict[str, Counter[str]] = {}
        self.by_value: dict[str, Counter[str]] = {}

    def matches(self, pod: Pod) -> bool:
        return pod.metadata.namespace in self.namespaces and self.selector.matches(pod.metadata.labels)

    def count(self, pod: Pod, node: Node, change: int) -> None:
        domains = [self.by_node.setdefault(node.metadata.name, Counter())]
        value = node.metadata.labels.get(self.topology_key)
        if value is not None:
            domains.append(self.by_value.setdefault(value, Counter()))
        for names in domains:
            names[pod.metadata.name] += change
            if not names[pod.metadata.name]:
                del names[pod.metadata.name]


class Violations:
    """The state of a run: the pods of each node, without those that were evicted."""

    def __init__(self, nodes: Iterable[Node], by_node: Mapping[str, Sequence[Pod]]) -> None:
        self._nodes = {node.metadata.name: node for node in nodes}
        self._pods = LabelIndex(pod for pods in by_node.values() for pod in pods)
        self._selected: dict[_Key, _Selected] = {}
        self._removed: set[str] = set()

    def reason(self, pod: Pod, node: Node) -> str | None:
        """Return which term of a pod on a node is violated, None if none is."""
        for selected in self._selected_by_terms(pod):
            if others := _others(selected, pod, node):
                return _reason(selected, others)
        return None

    def reason_there(self, pod: Pod, node: Node, others: Sequence[Pod]) -> str | None:
        """Return which term of a pod would be violated on another node with these pods."""
        for selected in self._selected_by_terms(pod):
            there = {other.metadata.name for other in others if selected.matches(other)}
            elsewhere: Counter[str] = Counter()
            if (value := node.metadata.labels.get(selected.topology_key)) is not None:
                elsewhere += selected.by_value.get(value, Counter())
                elsewhere -= selected.by_node.get(node.metadata.name, Counter())
            if names := sorted((there | elsewhere.keys()) - {pod.metadata.name}):
                return _reason(selected, names)
        return None

    def remove(self, pod: Pod) -> None:
        """Take an evicted pod out of the domains."""
        node = self._nodes[pod.spec.node_name]
        self._removed.add(pod.metadata.key)
        for selected in self._selected.values():
            if selected.matches(pod):
                selected.count(pod, node, -1)

    def _selected_by_terms(self, pod: Pod) -> Iterable[_Selected]:
        """Yield the pods that each term selects, up to the first invalid term."""
        for term in terms_of(pod):
            key = (
                tuple(term.namespaces) or (pod.metadata.namespace,),
                msgspec.msgpack.encode(term.label_selector),
                term.topology_key,
            )
            selected = self._selected.get(key)
            if selected is None:
                try:
                    selected = self._select(key, label_selector.of(term.label_selector))
                except SelectorError:
                    return
            yield selected

    def _select(self, key: _Key, selector: Selector) -> _Selected:
        selected = self._selected[key] = _Selected(frozenset(key[0]), selector, key[2])
        for namespace in selected.namespaces:
            for pod in self._pods.selected(namespace, selector):
                if pod.metadata.key not in self._removed:
                    selected.count(pod, self._nodes[pod.spec.node_name], 1)
        return selected


def _others(selected: _Selected, pod: Pod, node: Node) -> list[str]:
    """Some name of another pod in the pod's domains, if there is any."""
    domains = [selected.by_node.get(node.metadata.name)]
    value = node.metadata.labels.get(selected.topology_key)
    if value is not None:
        domains.append(selected.by_value.get(value))
    for names in domains:
        for name in names or ():
            if name != pod.metadata.name:
                return [name]
    return []


def _reason(selected: _Selected, names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"the pod's required anti-affinity by {selected.topology_key or 'node'} is to pod "
        f"{names[0]}{more} in the same domain"
    )
