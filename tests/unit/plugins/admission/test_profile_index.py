from collections.abc import Mapping
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.scheme import decode
from koordpy_plugins.admission.cluster_colocation_profile.index import Matcher, ProfileIndex

from .pods import profile

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["x", "y", "z"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        KEYS,
        st.sampled_from(["In", "NotIn", "Bogus"]),
        st.lists(VALUES, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        KEYS,
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
NAMES = st.sampled_from([f"profile-{number}" for number in range(8)])


def read(document: dict[str, Any]) -> ClusterColocationProfile:
    return decode(ClusterColocationProfile, document)


class IndexAgainstScan(RuleBasedStateMachine):
    """The index must find what trying every profile finds, whatever happened to profiles before."""

    @initialize()
    def start(self) -> None:
        self.index = ProfileIndex()
        self.profiles: dict[str, ClusterColocationProfile] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}

    @rule(name=NAMES, selector=SELECTORS, namespace_selector=SELECTORS)
    def put(self, name: str, selector: Any, namespace_selector: Any) -> None:
        stored = read(profile(name, selector=selector, namespaceSelector=namespace_selector))
        self.profiles[name] = stored
        self.index.put(stored)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.profiles.pop(name, None)
        self.index.remove(name)

    @rule(name=st.sampled_from(["ns1", "ns2"]), labels=LABELS)
    def label_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.namespaces[name] = labels

    @rule(name=st.sampled_from(["ns1", "ns2"]))
    def delete_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)

    @rule(labels=LABELS, namespace=st.sampled_from(["ns1", "ns2"]))
    def find(self, labels: dict[str, str], namespace: str) -> None:
        namespace_labels = self.namespaces.get(namespace)
        found = [matcher.name for matcher in self.index.find(labels, namespace_labels)]
        assert found == sorted(
            name
            for name, stored in self.profiles.items()
            if Matcher(stored).matches(labels, namespace_labels)
        )

    @invariant()
    def knows_all_profiles(self) -> None:
        if hasattr(self, "index"):
            assert [matcher.name for matcher in self.index] == sorted(self.profiles)


IndexAgainstScan.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestIndexAgainstScan = IndexAgainstScan.TestCase


def test_an_invalid_selector_matches_and_is_reported() -> None:
    matcher = Matcher(read(profile(selector={"matchExpressions": [{"key": "a", "operator": "Bogus"}]})))
    assert matcher.matches({}, {})
    assert '"Bogus" is not a valid label selector operator' in matcher.reason({}, {})


def test_unknown_namespace_matches_any_namespace_selector() -> None:
    matcher = Matcher(read(profile(namespaceSelector={"matchLabels": {"a": "x"}})))
    assert matcher.matches({}, None)
    assert not matcher.matches({}, {})


def test_label_that_all_profiles_ask_for_does_not_collect_them() -> None:
    index = ProfileIndex()
    for number in range(100):
        index.put(read(profile(f"p{number}", selector={"matchLabels": {"a": "x", "team": str(number)}})))
    tried: list[str] = []

    class Labels(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            tried.append(key)
            return super().get(key, default)

    assert index.find(Labels({"a": "x", "team": "no"}), {}) == []
    assert len(tried) <= 4
