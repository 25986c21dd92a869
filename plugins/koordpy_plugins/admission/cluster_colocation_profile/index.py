"""Find the profiles that select a pod without trying every profile.

Each profile is indexed by one requirement that a pod must meet for the profile to match: a value of a label
of the pod or of its namespace, or the presence of a label. Of several such requirements the index uses the
one with the fewest profiles so far, so that a label in the selectors of all profiles does not collect them
all. A query is then one lookup per label, and only the candidates are matched in full.

Source of the rules: Koordinator, `pkg/webhook/pod/mutating/cluster_colocation_profile.go`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.label_selector import Operator, Selector, SelectorError, fast_of
from koordpy.api.meta import LabelSelector

Labels = Mapping[str, str]

_VALUES = frozenset((Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN))


class Matcher:
    """A profile with its selectors parsed once. None is a selector that everything matches.

    An invalid selector matches everything, and so does a namespaceSelector if the Namespace is not known:
    only a definite mismatch excludes a profile.
    """

    __slots__ = ("name", "namespace_selector", "problem", "profile", "selector")

    def __init__(self, profile: ClusterColocationProfile) -> None:
        self.name = profile.metadata.name
        self.profile = profile
        self.problem = ""
        self.namespace_selector = self._read("namespaceSelector", profile.spec.namespace_selector)
        self.selector = self._read("selector", profile.spec.selector)

    def _read(self, field_name: str, selector: LabelSelector | None) -> Selector | None:
        if selector is None:
            return None
        try:
            read = fast_of(selector)
        except SelectorError as error:
            self.problem += f"{field_name} is not valid, which counts as a match ({error}); "
            return None
        return None if read.is_empty else read

    def matches(self, labels: Labels, namespace_labels: Labels | None) -> bool:
        """Whether a pod with these labels, in a namespace with those (None: not known), is selected."""
        if (
            namespace_labels is not None
            and self.namespace_selector is not None
            and not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector is None or self.selector.matches(labels)

    def reason(self, labels: Labels, namespace_labels: Labels | None) -> str:
        """Return the result of `matches` in words."""
        parts = [self.problem.removesuffix("; ")] if self.problem else []
        if self.namespace_selector is not None:
            if namespace_labels is None:
                parts.append("the Namespace is not known, which counts as a match")
            elif not self.namespace_selector.matches(namespace_labels):
                return f"namespaceSelector {str(self.namespace_selector)!r} does not match the namespace"
            else:
                parts.append(f"namespaceSelector {str(self.namespace_selector)!r} matches")
        if self.selector is not None:
            if not self.selector.matches(labels):
                return f"selector {str(self.selector)!r} does not match the labels"
            parts.append(f"selector {str(self.selector)!r} matches")
        return "; ".join(parts) or "selects everything"


Matchers = dict[str, Matcher]


@dataclass(frozen=True)
class _Anchor:
    """The requirement by which a profile is indexed; without values: the label's presence."""

    of_namespace: bool
    key: str
    values: tuple[str, ...] | None


@dataclass
class _Filed:
    """The profiles indexed by one label key."""

    present: Matchers = field(default_factory=dict)
    by_value: dict[str, Matchers] = field(default_factory=dict)


class _File:
    """Profiles by label key and value."""

    def __init__(self) -> None:
        self._keys: dict[str, _Filed] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def _bins(self, anchor: _Anchor) -> Iterator[Matchers]:
        filed = self._keys.setdefault(anchor.key, _Filed())
        if anchor.values is None:
            yield filed.present
        else:
            for value in anchor.values:
                yield filed.by_value.setdefault(value, {})

    def add(self, anchor: _Anchor, matcher: Matcher) -> None:
        for matchers in self._bins(anchor):
            matchers[matcher.name] = matcher

    def remove(self, anchor: _Anchor, name: str) -> None:
        for matchers in self._bins(anchor):
            matchers.pop(name, None)
        filed = self._keys[anchor.key]
        for value in anchor.values or ():
            if not filed.by_value[value]:
                del filed.by_value[value]
        if not filed.present and not filed.by_value:
            del self._keys[anchor.key]

    def load(self, anchor: _Anchor) -> int:
        """The maximum number of candidates for a pod that meets the requirement."""
        filed = self._keys.get(anchor.key)
        if filed is None:
            return 0
        if anchor.values is None:
            return len(filed.present) + sum(map(len, filed.by_value.values()))
        return max((len(filed.by_value.get(value, ())) for value in anchor.values), default=0)

    def collect(self, labels: Labels, into: list[Matcher]) -> None:
        keys = self._keys
        for key, value in labels.items():
            filed = keys.get(key)
            if filed is not None:
                if filed.present:
                    into.extend(filed.present.values())
                matchers = filed.by_value.get(value)
                if matchers:
                    into.extend(matchers.values())


class ProfileIndex:
    """All profiles, updated by `put` and `remove`."""

    def __init__(self) -> None:
        self._matchers: Matchers = {}
        self._anchors: dict[str, _Anchor | None] = {}
        self._by_pod = _File()
        self._by_namespace = _File()
        self._filed_by_namespace: Matchers = {}  # all are candidates where a Namespace is not known
        self._unfiled: Matchers = {}

    def __len__(self) -> int:
        return len(self._matchers)

    def __iter__(self) -> Iterator[Matcher]:
        """Yield all profiles by name."""
        return iter(sorted(self._matchers.values(), key=lambda matcher: matcher.name))

    def put(self, profile: ClusterColocationProfile) -> None:
        """Add or replace a profile."""
        self.remove(profile.metadata.name)
        matcher = Matcher(profile)
        anchor = self._anchor(matcher)
        self._matchers[matcher.name] = matcher
        self._anchors[matcher.name] = anchor
        if anchor is None:
            self._unfiled[matcher.name] = matcher
        elif anchor.of_namespace:
            self._by_namespace.add(anchor, matcher)
            self._filed_by_namespace[matcher.name] = matcher
        else:
            self._by_pod.add(anchor, matcher)

    def remove(self, name: str) -> None:
        """Remove a profile; unknown names are no error."""
        if self._matchers.pop(name, None) is None:
            return
        anchor = self._anchors.pop(name)
        if anchor is None:
            del self._unfiled[name]
        elif anchor.of_namespace:
            self._by_namespace.remove(anchor, name)
            del self._filed_by_namespace[name]
        else:
            self._by_pod.remove(anchor, name)

    def find(self, labels: Labels, namespace_labels: Labels | None) -> list[Matcher]:
        """Return the profiles that select a pod, by name in byte order."""
        candidates = list(self._unfiled.values())
        if self._by_pod:
            self._by_pod.collect(labels, candidates)
        if namespace_labels is None:
            candidates.extend(self._filed_by_namespace.values())
        elif self._by_namespace:
            self._by_namespace.collect(namespace_labels, candidates)
        found = [matcher for matcher in candidates if matcher.matches(labels, namespace_labels)]
        if len(found) > 1:
            found.sort(key=lambda matcher: matcher.name)
        return found

    def _anchor(self, matcher: Matcher) -> _Anchor | None:
        """Choose the requirement to index a profile by, None if it has none that can be looked up."""
        best: _Anchor | None = None
        best_rank = (0, 0, 0)
        for of_namespace, selector in ((False, matcher.selector), (True, matcher.namespace_selector)):
            if selector is None:
                continue
            for requirement in selector.requirements:
                if requirement.operator in _VALUES:
                    values = tuple(dict.fromkeys(requirement.values))
                    anchor = _Anchor(of_namespace, requirement.key, values)
                elif requirement.operator is Operator.EXISTS:
                    anchor = _Anchor(of_namespace, requirement.key, None)
                else:
                    continue
                file = self._by_namespace if of_namespace else self._by_pod
                rank = (file.load(anchor), of_namespace, anchor.values is None)
                if best is None or rank < best_rank:
                    best, best_rank = anchor, rank
        return best
