"""The affinity terms of a pod, parsed once per workload.

Source: Kubernetes, `k8s.io/kube-scheduler/framework` (`PodInfo`, `AffinityTerm`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from koordpy.api import label_selector
from koordpy.api.core import Pod, PodAffinity, PodAffinityTerm
from koordpy.api.label_selector import Selector, SelectorError
from koordpy.cluster.pod_counts import PodMatch
from koordpy.lib.bounded_cache import cached

NO_LABELS: Mapping[str, str] = {}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, PodAffinity | None, PodAffinity | None]).decode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Term:
    """A selector of pods and namespaces, and the topology key of nodes."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str
    weight: int = 0
    """For preferred terms, negative for anti-affinity."""

    def matches(self, namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels matches; `of_namespace` are the labels of its namespace."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(of_namespace)
        ) and self.selector.matches(labels)

    def matches_pod(self, pod: Pod) -> bool:
        """Return whether a pod matches, whatever the labels of its namespace."""
        return self.matches(pod.metadata.namespace, pod.metadata.labels, NO_LABELS)

    @property
    def condition(self) -> tuple[frozenset[str] | None, Selector]:
        """The same as a condition of a `PodMatch`."""
        everywhere = self.namespace_selector.matches(NO_LABELS)
        return None if everywhere else self.namespaces, self.selector

    def within(self, namespaces: Iterable[str]) -> "Term":
        """Return the term with more namespaces."""
        return replace(self, namespaces=self.namespaces.union(namespaces))

    @property
    def label(self) -> tuple[str, str] | None:
        """A label that every matching pod has, if the selector names one."""
        for item in self.selector.requirements:
            value = self.selector.exact_value(item.key)
            if value is not None:
                return item.key, value
        return None


@dataclass(frozen=True, slots=True)
class PodTerms:
    """All terms of a pod. A list with an invalid term is empty, and its error is in `problems`."""

    required: tuple[Term, ...] = ()
    required_anti: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    """Affinity and anti-affinity together."""
    problems: tuple[str, ...] = ()


NO_TERMS = PodTerms()


def key_of(pod: Pod) -> bytes | None:
    """Return the key of a pod's terms: equal for pods with equal terms, None for pods without any."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    return _encode((pod.metadata.namespace, affinity.pod_affinity, affinity.pod_anti_affinity))


def read(pod: Pod) -> PodTerms:
    """Return a pod's terms as written."""
    key = key_of(pod)
    return NO_TERMS if key is None else read_key(key)


def has_preferred(pod: Pod) -> bool:
    """Return whether a pod has preferred terms, valid or not."""
    affinity = pod.spec.affinity
    return affinity is not None and any(
        kind is not None and kind.preferred_during_scheduling_ignored_during_execution
        for kind in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def all_of(terms: Iterable[Term]) -> PodMatch:
    """Return the query for pods that match all terms."""
    return PodMatch(tuple(term.condition for term in terms))


@cached("pod_affinity", 8 << 20)
def read_key(key: bytes) -> PodTerms:
    """Return the terms of a key."""
    namespace, near, far = _decode(key)
    problems: list[str] = []

    def read_list(items: list[T], read_one: Callable[[T], Term]) -> tuple[Term, ...]:
        try:
            return tuple(map(read_one, items))
        except SelectorError as error:
            problems.append(str(error))
            return ()

    def required(kind: PodAffinity | None) -> tuple[Term, ...]:
        items = kind.required_during_scheduling_ignored_during_execution if kind else []
        return read_list(items, lambda item: _term(namespace, item))

    def preferred(kind: PodAffinity | None, sign: int) -> tuple[Term, ...]:
        items = kind.preferred_during_scheduling_ignored_during_execution if kind else []
        return read_list(items, lambda item: _term(namespace, item.pod_affinity_term, sign * item.weight))

    lists = required(near), required(far), preferred(near, 1) + preferred(far, -1)
    return PodTerms(*lists, tuple(problems))


def _term(namespace: str, term: PodAffinityTerm, weight: int = 0) -> Term:
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return Term(
        namespaces,
        label_selector.of(term.namespace_selector),
        label_selector.of(term.label_selector),
        term.topology_key,
        weight,
    )
