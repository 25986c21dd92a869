"""Many node selector terms, of which each node can match few.

Tenants write the terms, up to tens of thousands in one pod, and every node has to be matched with them while
kube-scheduler waits. So a term is looked up by the rarest value that it requires; only what requires no value
is evaluated for each node, once for all nodes with the same labels as far as terms name them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

_ANSWERS_KEPT = 256

Pair = tuple[str, str]


class Term(Protocol):
    """A node selector term."""

    @property
    def required_values(self) -> Iterable[tuple[Pair, ...]]:
        """For each requirement that only certain values of a label meet, these labels with their values."""

    @property
    def required_keys(self) -> Iterable[str]:
        """The labels that a node must have."""

    @property
    def excluded(self) -> tuple[frozenset[Pair], frozenset[str]] | None:
        """The labels with values, and the labels, of which a node may have none, if nothing else matters."""

    @property
    def keys(self) -> Iterable[str]:
        """The labels that it names."""

    @property
    def node_names(self) -> frozenset[str] | None:
        """The only names that can match; None if it does not name its nodes."""

    @property
    def names_nodes(self) -> bool:
        """Whether it depends on the name of the node at all."""

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node matches."""


class TermIndex:
    """Terms of which a node must match one."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self._by_value: dict[Pair, list[Term]] = {}
        self._by_name: dict[str, list[Term]] = {}
        self._others: list[Term] = []
        self._keys: set[str] = set()
        self._by_their_name = False
        self._answers: dict[tuple[frozenset[Pair], str], bool] = {}
        terms = list(terms)
        uses = Counter(pair for term in terms for pairs in term.required_values for pair in pairs)
        for term in terms:
            self._file(term, uses)

    def _file(self, term: Term, uses: Counter[Pair]) -> None:
        if term.node_names is not None:
            for name in term.node_names:
                self._by_name.setdefault(name, []).append(term)
            return
        rarest = min(term.required_values, key=lambda pairs: sum(map(uses.__getitem__, pairs)), default=None)
        if rarest is None:
            self._others.append(term)
            self._keys.update(term.keys)
            self._by_their_name |= term.names_nodes
        for pair in rarest or ():
            self._by_value.setdefault(pair, []).append(term)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node matches any term. Without a name, fields are ignored, so all terms count."""
        if not name:
            return any(term.matches(labels, name) for term in self._all())
        return (
            any(term.matches(labels, name) for term in self._by_name.get(name, ()))
            or any(
                term.matches(labels, name) for pair in labels.items() for term in self._by_value.get(pair, ())
            )
            or (bool(self._others) and self._matches_others(labels, name))
        )

    def _matches_others(self, labels: Mapping[str, str], name: str) -> bool:
        named = frozenset(pair for pair in labels.items() if pair[0] in self._keys)
        key = named, name if self._by_their_name else ""
        known = self._answers.get(key)
        if known is None:
            if len(self._answers) >= _ANSWERS_KEPT:
                self._answers.clear()
            known = self._answers[key] = any(term.matches(labels, name) for term in self._others)
        return known

    def _all(self) -> Iterator[Term]:
        for terms in self._by_name.values():
            yield from terms
        for terms in self._by_value.values():
            yield from terms
        yield from self._others


class WeightIndex:
    """Terms with weights, of which a node adds those that match."""

    def __init__(self, terms: Iterable[tuple[int, Term]]) -> None:
        self._all = list(terms)
        self._by_name: dict[str, list[tuple[int, Term]]] = {}
        self._by_value: dict[Pair, list[tuple[int, Term]]] = {}
        self._by_key: dict[str, list[tuple[int, Term]]] = {}
        self._others: list[tuple[int, Term]] = []
        self._usual = 0
        """What nodes add that have nothing that any term excludes."""
        self._excluding: dict[Pair | str, dict[int, int]] = {}
        """The weights of terms, by their numbers, that exclude a label, or a label with a value."""
        uses = Counter(pair for _, term in self._all for pairs in term.required_values for pair in pairs)
        for number, (weight, term) in enumerate(self._all):
            self._file(number, weight, term, uses)

    def _file(self, number: int, weight: int, term: Term, uses: Counter[Pair]) -> None:
        if term.node_names is not None:
            for name in term.node_names:
                self._by_name.setdefault(name, []).append((weight, term))
            return
        rarest = min(term.required_values, key=lambda pairs: sum(map(uses.__getitem__, pairs)), default=None)
        key = next(iter(term.required_keys), None)
        if rarest is not None:
            for pair in dict.fromkeys(rarest):
                self._by_value.setdefault(pair, []).append((weight, term))
        elif key is not None:
            self._by_key.setdefault(key, []).append((weight, term))
        elif (excluded := term.excluded) is not None:
            self._usual += weight
            names: list[Pair | str] = [*excluded[0], *excluded[1]]
            for each in names:
                self._excluding.setdefault(each, {})[number] = weight
        else:
            self._others.append((weight, term))

    def score(self, labels: Mapping[str, str], name: str) -> int:
        """Return the sum of the weights of the terms that a node matches."""
        if not name:  # fields are ignored, so terms that name nodes may match too
            return sum(weight for weight, term in self._all if term.matches(labels, name))
        total = self._usual
        missing: dict[int, int] = {}
        candidates = [self._others, self._by_name.get(name, ())]
        for pair in labels.items():
            candidates += self._by_value.get(pair, ()), self._by_key.get(pair[0], ())
            missing |= self._excluding.get(pair, {})
            missing |= self._excluding.get(pair[0], {})
        total -= sum(missing.values())
        return total + sum(
            weight for found in candidates for weight, term in found if term.matches(labels, name)
        )
