"""Which nodes a pod may run on, and which it prefers, by node selector and node affinity.

Terms are parsed once: pods of one workload share one matcher. A matcher takes a node's labels and name, so
that it works for Node objects as well as rows of a node table. Source of the rules: Kubernetes,
`k8s.io/component-helpers/scheduling/corev1/nodeaffinity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from koordpy.lib.bounded_cache import cached

from .core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
)
from .label_selector import Operator, Selector, SelectorError, of_labels, requirement
from .term_index import TermIndex, WeightIndex

FEW_TERMS = 16
"""Terms that are matched one after the other."""


class NodeAffinityError(ValueError):
    """An invalid node selector term; the message names each part and what was expected."""


_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}


_WITH_KEY: Final = (Operator.EXISTS, Operator.GREATER_THAN, Operator.LESS_THAN)
"""Operators that only a node with the label meets, besides In."""

_WITHOUT_KEY: Final = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
"""Operators that a node without the label meets."""


class Term:
    """One node selector term: all its expressions must hold. A term with errors never matches."""

    __slots__ = ("_fields", "_labels", "errors", "node_names")

    def __init__(self, term: NodeSelectorTerm, path: str) -> None:
        self.errors: list[str] = []
        self.node_names = _named(term.match_fields)
        """The only names that can match, or None if the term does not name its nodes. Kubernetes also reads
        them from an invalid term."""
        self._labels = self._read_expressions(term.match_expressions, f"{path}.matchExpressions")
        self._fields = self._read_fields(term.match_fields, f"{path}.matchFields")

    def _read_expressions(self, expressions: list[NodeSelectorRequirement], path: str) -> Selector:
        requirements = []
        for index, expression in enumerate(expressions):
            operator = _OPERATORS.get(expression.operator)
            if operator is None:
                self._refuse(
                    f"{path}[{index}].operator", expression.operator, f"one of {', '.join(_OPERATORS)}"
                )
                continue
            try:
                requirements.append(requirement(expression.key, operator, expression.values))
            except SelectorError as error:
                self.errors.append(f"{path}[{index}]: {error}")
        return Selector(requirements)

    def _read_fields(
        self, expressions: list[NodeSelectorRequirement], path: str
    ) -> tuple[tuple[str, str, bool], ...]:
        fields = []
        for index, expression in enumerate(expressions):
            if expression.operator not in ("In", "NotIn"):
                self._refuse(f"{path}[{index}].operator", expression.operator, "In or NotIn")
            elif len(expression.values) != 1:
                self._refuse(f"{path}[{index}].values", expression.values, "exactly one value")
            else:
                fields.append((expression.key, expression.values[0], expression.operator == "In"))
        return tuple(fields)

    def _refuse(self, path: str, value: object, expected: str) -> None:
        self.errors.append(f"{path}: {value!r}: expected {expected}")

    @property
    def required_values(self) -> list[tuple[tuple[str, str], ...]]:
        """For each expression with In, the label with each of its values."""
        return [
            tuple((item.key, value) for value in item.values)
            for item in self._labels.requirements
            if item.operator is Operator.IN
        ]

    @property
    def required_keys(self) -> list[str]:
        """The labels that a node must have."""
        return [item.key for item in self._labels.requirements if item.operator in _WITH_KEY]

    @property
    def excluded(self) -> tuple[frozenset[tuple[str, str]], frozenset[str]] | None:
        """What a node must not have, as labels with values and as labels, if nothing else matters."""
        items = self._labels.requirements
        if self._fields or self.errors or any(item.operator not in _WITHOUT_KEY for item in items):
            return None
        pairs = ((item.key, value) for item in items for value in item.values)
        return frozenset(pairs), frozenset(
            item.key for item in items if item.operator is Operator.DOES_NOT_EXIST
        )

    @property
    def keys(self) -> list[str]:
        """The labels of the expressions."""
        return [item.key for item in self._labels.requirements]

    @property
    def names_nodes(self) -> bool:
        """Whether there is any field."""
        return bool(self._fields)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node matches. On a node without a name, fields are ignored."""
        if self.errors or not self._labels.matches(labels):
            return False
        if name:
            for field, value, equal in self._fields:
                if ((name if field == "metadata.name" else "") == value) != equal:
                    return False
        return True


def _named(fields: list[NodeSelectorRequirement]) -> frozenset[str] | None:
    """Return the node names that all fields allow, None if no field lists any."""
    names: frozenset[str] | None = None
    for each in fields:
        if each.key == "metadata.name" and each.operator == "In":
            names = frozenset(each.values) if names is None else names.intersection(each.values)
    return names


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """Where a pod may run: its nodeSelector (never validated) and one of its required terms, if any."""

    selector: Selector
    terms: tuple[Term, ...] | None
    index: TermIndex | None = field(default=None, compare=False)
    """Of many terms."""

    @property
    def is_empty(self) -> bool:
        """Whether every node matches."""
        return self.terms is None and self.selector.is_empty

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name matches; terms with errors do not."""
        if not self.selector.matches(labels):
            return False
        return self._any_term_matches(labels, name)

    def _any_term_matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.index is not None:
            return self.index.matches(labels, name)
        return self.terms is None or any(term.matches(labels, name) for term in self.terms)

    def matches_node(self, node: Node) -> bool:
        """Return whether a node matches; terms with errors do not."""
        return self.matches(node.metadata.labels, node.metadata.name)

    def check(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node matches, as `matches`.

        Raises:
            NodeAffinityError: the node selector matches, no term matches, and some term is invalid.
        """
        if not self.selector.matches(labels):
            return False
        if self._any_term_matches(labels, name):
            return True
        if problems := self.errors:
            raise NodeAffinityError("; ".join(problems))
        return False

    @property
    def errors(self) -> list[str]:
        """Errors in the terms; usually none."""
        return [problem for term in self.terms or () for problem in term.errors]

    @property
    def node_names(self) -> frozenset[str] | None:
        """The only nodes that can match, by name, or None if some term is not bound to names."""
        names: frozenset[str] = frozenset()
        for term in self.terms or ():
            of_term = term.node_names
            if of_term is None:
                return None
            names |= of_term
        return names if self.terms else None


ANY_NODE: Final = RequiredNodeAffinity(Selector(), None)


def required(spec: PodSpec) -> RequiredNodeAffinity:
    """Return where a pod may run, by nodeSelector and required node affinity. The matcher is cached."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if selector is None and not spec.node_selector:
        return ANY_NODE
    return _required(msgspec.msgpack.encode((spec.node_selector, selector)))


@cached("node_affinity", 8 << 20, keeps_latest=True)
def _required(packed: bytes) -> RequiredNodeAffinity:
    labels, selector = msgspec.msgpack.decode(packed, type=tuple[dict[str, str], NodeSelector | None])
    terms = None if selector is None else _terms(selector)
    index = TermIndex(terms) if terms is not None and len(terms) > FEW_TERMS else None
    return RequiredNodeAffinity(of_labels(labels), terms, index)


def node_selector(selector: NodeSelector) -> RequiredNodeAffinity:
    """Return the matcher of a bare node selector, as in a volume or a reservation. It is cached."""
    return _required(msgspec.msgpack.encode(({}, selector)))


def _terms(selector: NodeSelector) -> tuple[Term, ...]:
    return tuple(
        Term(term, f"nodeSelectorTerms[{index}]")
        for index, term in enumerate(selector.node_selector_terms)
        if not _is_empty(term)
    )


@dataclass(frozen=True, slots=True)
class PreferredNodeAffinity:
    """Terms with the weights that they add."""

    terms: tuple[tuple[int, Term], ...]
    index: WeightIndex | None = field(default=None, compare=False)
    """Of many terms."""

    def score(self, labels: Mapping[str, str], name: str) -> int:
        """Return the sum of the weights of the terms that a node matches."""
        if self.index is not None:
            return self.index.score(labels, name)
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


NO_PREFERENCE: Final = PreferredNodeAffinity(())


def preferred(spec: PodSpec) -> PreferredNodeAffinity:
    """Return which nodes a pod prefers. The matcher is cached.

    Terms of weight 0 and empty ones are skipped without validation.

    Raises:
        NodeAffinityError: a term is invalid.
    """
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
    return _preferred(msgspec.msgpack.encode(terms)) if terms else NO_PREFERENCE


@cached("preferred_node_affinity", 4 << 20, keeps_latest=True)
def _preferred(packed: bytes) -> PreferredNodeAffinity:
    terms = tuple(
        (term.weight, Term(term.preference, f"[{index}]"))
        for index, term in enumerate(msgspec.msgpack.decode(packed, type=list[PreferredSchedulingTerm]))
        if term.weight and not _is_empty(term.preference)
    )
    if problems := [problem for _, term in terms for problem in term.errors]:
        raise NodeAffinityError("; ".join(problems))
    return PreferredNodeAffinity(terms, WeightIndex(terms) if len(terms) > FEW_TERMS else None)
