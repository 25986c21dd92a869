"""Every finding of the linter, on the smallest profiles that have it, and none where nothing is wrong."""

from typing import Any

import pytest

from koordpy.admission.gates import feature_gates
from koordpy.admission.lint import Finding, LintHandle, Severity, by_severity, make
from koordpy.cluster.cluster import Cluster

from .pods import handle, namespace, priority_class

SPARK: dict[str, Any] = {"matchLabels": {"app": "spark"}}
MANAGED = {"config.koordinator.sh/controller-managed": "true"}
SOUND: dict[str, Any] = {"selector": SPARK, "qosClass": "BE", "priorityClassName": "koord-batch"}


def profile(name: str = "p", *, marks: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name, "labels": marks or {}},
        "spec": spec,
    }


def lint(
    *profiles: dict[str, Any], known: list[dict[str, Any]] | None = None, **gates: bool
) -> list[Finding]:
    """Lint profiles: in files, or where `known` is given in a cluster that has just that."""
    cluster = Cluster() if known is None else handle(*known).cluster
    handle_ = LintHandle(cluster, feature_gates(gates), complete=known is not None)
    linter = make("ClusterColocationProfile", handle_)
    return by_severity(linter.lint(list(profiles)))


def one(found: list[Finding]) -> tuple[str, str, str, Any]:
    """Return severity, rule, field and value of the only finding."""
    [only] = found
    return only.severity.value, only.rule, only.field, only.value


@pytest.mark.parametrize(
    "spec",
    [
        SOUND,
        SOUND | {"koordinatorPriority": 1000, "schedulerName": "koord-scheduler", "probability": 100},
        SOUND | {"patch": {"spec": {"tolerations": [{"key": "batch", "operator": "Exists"}]}}},
        SOUND | {"labels": {"a.b/c": "d", "e": ""}, "annotations": {"f": "anything at all"}},
        SOUND | {"labelSuffixes": {"app": "-x"}, "labelKeysMapping": {"app": "kind"}},
        {"selector": SPARK, "qosClass": "LS"},
    ],
)
def test_nothing_is_said_about_a_sound_profile(spec: dict[str, Any]) -> None:
    assert lint(profile(**spec)) == []


# --- reading -----------------------------------------------------------------------------------------


def test_unknown_fields_are_found_wherever_they_are() -> None:
    spec = SOUND | {
        "qosclass": "BE",
        "selector": SPARK
        | {"matchLabel": {}, "matchExpressions": [{"key": "a", "operator": "Exists", "val": 1}]},
    }
    found = lint(profile(**spec) | {"spce": {}})
    assert {(item.rule, item.field) for item in found} == {
        ("unknown-field", "spce"),
        ("unknown-field", "spec.qosclass"),
        ("unknown-field", "spec.selector.matchLabel"),
        ("unknown-field", "spec.selector.matchExpressions[0].val"),
    }
    assert "did you mean qosClass?" in next(
        item.expectation for item in found if item.field == "spec.qosclass"
    )


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (profile(selector=SPARK, labels={"a": 1}), "spec.labels[...]"),
        (profile("", selector=SPARK), "metadata.name"),
        (profile(**SOUND) | {"apiVersion": "v1"}, "apiVersion"),
        (profile(**SOUND, koordinatorPriority=1 << 31), "spec.koordinatorPriority"),
    ],
)
def test_what_is_no_profile_is_found(document: dict[str, Any], field: str) -> None:
    assert one(lint(document))[:3] == ("error", "malformed", field)


def test_a_name_is_used_once() -> None:
    assert one(lint(profile(**SOUND), profile(**SOUND))) == ("error", "duplicate-name", "metadata.name", "p")


# --- selection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "a", "operator": op} for op in ("Exists", "DoesNotExist")]},
        {"matchLabels": {"a": "no value!"}},
    ],
)
@pytest.mark.parametrize("field", ["selector", "namespaceSelector"])
def test_a_selector_that_nothing_can_match(field: str, selector: dict[str, Any]) -> None:
    spec: dict[str, Any] = {"selector": SPARK, "schedulerName": "s", field: selector}
    found = one(lint(profile(**spec)))
    assert found[:3] == ("error", "never-matches", f"spec.{field}")


def test_a_selector_that_cannot_be_read_matches_everything() -> None:
    broken = {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}
    [found] = lint(profile(selector=broken, schedulerName="s"))
    assert (found.severity, found.rule, found.field) == (Severity.ERROR, "invalid-selector", "spec.selector")
    assert "treats that as a match" in found.expectation


@pytest.mark.parametrize("selectors", [{}, {"selector": {}}, {"selector": {}, "namespaceSelector": {}}])
def test_a_profile_for_everything(selectors: dict[str, Any]) -> None:
    assert one(lint(profile(**selectors, schedulerName="s")))[:3] == (
        "warning",
        "selects-everything",
        "spec.selector",
    )


def test_a_namespace_selector_that_matches_none_of_the_clusters_namespaces() -> None:
    document = profile(namespaceSelector={"matchLabels": {"team": "a"}}, schedulerName="s")
    assert lint(document) == []
    assert lint(document, known=[namespace("x", team="a")]) == []
    assert one(lint(document, known=[namespace("x", team="b")])) == (
        "warning",
        "no-namespace",
        "spec.namespaceSelector",
        "team=a",
    )


@pytest.mark.parametrize(
    ("probability", "severity", "rule"),
    [
        (0, "warning", "never-applied"),
        ("0%", "warning", "never-applied"),
        (-5, "warning", "never-applied"),
        (101, "warning", "odd-probability"),
        ("50", "error", "invalid-probability"),
        ("half%", "error", "invalid-probability"),
        ("50%", "note", "odd-probability"),
        (99, "note", "odd-probability"),
    ],
)
def test_probabilities_that_are_not_what_they_seem(probability: Any, severity: str, rule: str) -> None:
    found = one(lint(profile(**SOUND, probability=probability)))
    assert found == (severity, rule, "spec.probability", probability)


def test_a_probability_rolls_one_too_many() -> None:
    assert lint(profile(**SOUND, probability=50))[0].expectation == "the profile is applied to 51 of 100 pods"
    assert (
        lint(profile(**SOUND, probability=99))[0].expectation == "the profile is applied to 100 of 100 pods"
    )


# --- the profile controller ---------------------------------------------------------------------------


def managed(**spec: Any) -> list[Finding]:
    return lint(profile(marks=MANAGED, **{"selector": SPARK, "schedulerName": "s", **spec}))


def test_the_controller_rolls_again_and_again() -> None:
    assert [item.rule for item in managed(probability=50)] == ["repeated-roll", "odd-probability"]


def test_the_controller_needs_a_selector() -> None:
    found = managed(selector=None, namespaceSelector={"matchLabels": {"a": "b"}})
    assert one(found)[:3] == ("warning", "controller-selects-nothing", "spec.selector")


def test_the_controller_appends_suffixes_without_end() -> None:
    assert one(managed(labelSuffixes={"app": "-x"})) == (
        "error",
        "suffix-accumulates",
        "spec.labelSuffixes[app]",
        "-x",
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"patch": {"spec": {"nodeSelector": {"a": "b"}}}}, "spec.patch.spec.nodeSelector[a]"),
        (
            {"patch": {"spec": {"containers": [{"name": "m", "image": "x", "tty": True}]}}},
            "spec.patch.spec.containers[name=m].tty",
        ),
        ({"koordinatorPriority": 7}, "spec.koordinatorPriority"),
        ({"labels": {"koordinator.sh/qosClass": "LS"}}, "spec.labels[koordinator.sh/qosClass]"),
    ],
)
def test_the_controller_cannot_change_everything(spec: dict[str, Any], field: str) -> None:
    assert one(managed(**spec))[:3] == ("warning", "controller-cannot-patch", field)


@pytest.mark.parametrize(
    "spec",
    [
        {"patch": {"metadata": {"labels": {"a": "b"}}, "spec": {"activeDeadlineSeconds": 5}}},
        {"patch": {"spec": {"containers": [{"name": "m", "image": "x"}]}}},
        {"patch": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}},
    ],
)
def test_the_controller_can_change_some_things(spec: dict[str, Any]) -> None:
    assert managed(**spec) == []


def test_a_gate_lets_the_sub_priority_be_changed() -> None:
    document = profile(marks=MANAGED, selector=SPARK, koordinatorPriority=7)
    assert lint(document, ColocationProfileSkipValidatingPriority=True) == []


def test_only_true_means_true() -> None:
    label = {"config.koordinator.sh/controller-managed": "yes"}
    found = one(lint(profile(marks=label, **SOUND)))
    assert found[1:] == (
        "controller-label",
        "metadata.labels[config.koordinator.sh/controller-managed]",
        "yes",
    )


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "rule", "field"),
    [
        ({"labels": {"a b": "c"}}, "invalid-key", "spec.labels[a b]"),
        ({"labels": {"a": "b c"}}, "invalid-label", "spec.labels[a]"),
        ({"annotations": {"a/b/c": "d"}}, "invalid-key", "spec.annotations[a/b/c]"),
        ({"labelKeysMapping": {"app": "-"}}, "invalid-key", "spec.labelKeysMapping[app]"),
        (
            {"annotations": {"a": ""}, "annotationKeysMapping": {"a": "é"}},
            "invalid-key",
            "spec.annotationKeysMapping[a]",
        ),
        ({"labelSuffixes": {"app": "-"}}, "invalid-label", "spec.labelSuffixes[app]"),
        ({"labelSuffixes": {"app": "x" * 63}}, "invalid-label", "spec.labelSuffixes[app]"),
        (
            {"patch": {"metadata": {"labels": {"a": "b c"}}}},
            "invalid-label",
            "spec.patch.metadata.labels[a]",
        ),
        ({"qosClass": "be"}, "unknown-qos", "spec.qosClass"),
        ({"labels": {"koordinator.sh/qosClass": "B"}}, "unknown-qos", "spec.labels[koordinator.sh/qosClass]"),
        (
            {"labels": {"koordinator.sh/priority-class": "batch"}},
            "unknown-priority-class",
            "spec.labels[koordinator.sh/priority-class]",
        ),
        ({"schedulerName": "My Scheduler"}, "invalid-name", "spec.schedulerName"),
    ],
)
def test_values_that_pods_cannot_have(spec: dict[str, Any], rule: str, field: str) -> None:
    assert one(lint(profile(selector=SPARK, **spec)))[:3] == ("error", rule, field)


def test_mappings_say_what_they_leave_empty() -> None:
    found = one(lint(profile(selector=SPARK, labelKeysMapping={"team": "owner"})))
    assert found == ("note", "mapping-empty", "spec.labelKeysMapping[team]", "owner")


def test_mappings_are_no_chains() -> None:
    spec: dict[str, Any] = {"labels": {"a": "1", "b": "2"}, "labelKeysMapping": {"a": "b", "b": "c"}}
    found = {item.rule: item for item in lint(profile(selector=SPARK, **spec))}
    assert found["mapping-chain"].field == "spec.labelKeysMapping[a]"


def test_a_priority_class_that_there_is_not() -> None:
    document = profile(selector=SPARK, priorityClassName="gold")
    assert one(lint(document))[:2] == ("note", "no-priority-class")
    assert one(lint(document, known=[])) == (
        "error",
        "no-priority-class",
        "spec.priorityClassName",
        "gold",
    )
    assert lint(document, known=[priority_class("gold", 100)]) == []
    assert one(lint(profile(**SOUND), known=[]))[:2] == ("error", "no-priority-class")


# --- patches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, "every pod that the profile selects is refused"),
        ({"spec": {"containers": "all"}}, "every pod that the profile selects is refused"),
        ("text", "every pod that the profile selects is refused"),
        (
            {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "lots"}}}]}},
            "every pod that the profile selects is refused",
        ),
        ({"spec": {"volumes": [{"emptyDir": {}}]}}, "and that have such a list already are refused"),
    ],
)
def test_a_patch_that_cannot_be_applied(patch: Any, told: str) -> None:
    [found] = lint(profile(selector=SPARK, patch=patch))
    assert (found.severity, found.rule, found.field) == (Severity.ERROR, "patch-fails", "spec.patch")
    assert told in found.expectation


def test_members_of_a_patch_that_pods_do_not_have() -> None:
    patch = {
        "spec": {
            "nodeselector": {"any": "key"},
            "restartPolicies": "x",
            "containers": [{"name": "m", "cpu": 1}],
        }
    }
    found = lint(profile(selector=SPARK, patch=patch))
    assert {(item.rule, item.field) for item in found} == {
        ("unknown-field", "spec.patch.spec.restartPolicies"),
        ("unknown-field", "spec.patch.spec.containers[0].cpu"),
    }


# --- what the validating webhook says ------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"qosClass": "LSR", "priorityClassName": "koord-batch"},
        {"qosClass": "BE", "priorityClassName": "koord-prod"},
        {"qosClass": "LS", "priorityClassName": "koord-batch"},  # batch resources need BE
        {"qosClass": "LSR", "labels": {"koordinator.sh/priority-class": "koord-mid"}},
    ],
)
def test_classes_that_no_pod_can_have_together(spec: dict[str, Any]) -> None:
    [found] = lint(profile(selector=SPARK, **spec))
    assert (found.severity, found.rule) == (Severity.ERROR, "refused")
    assert "/validate-pod refuses every pod" in found.expectation


@pytest.mark.parametrize(
    ("spec", "unless"),
    [
        ({"qosClass": "BE"}, "priority class koord-mid or koord-batch or koord-free"),
        ({"qosClass": "LSR"}, "priority class koord-prod"),
        ({"priorityClassName": "koord-batch"}, "QoS class BE"),
    ],
)
def test_classes_that_suit_some_pods_only(spec: dict[str, Any], unless: str) -> None:
    [found] = lint(profile(selector=SPARK, **spec))
    assert (found.severity, found.rule) == (Severity.WARNING, "refused-unless")
    assert found.expectation.endswith(f"unless the pod itself has {unless}")


def test_profiles_that_complete_each_other_are_sound() -> None:
    assert lint(profile("a", selector=SPARK, qosClass="BE"), profile("b", **SOUND)) == []
    priority = profile("b", selector=SPARK, priorityClassName="koord-batch")
    assert lint(profile("a", selector=SPARK, qosClass="BE"), priority) == []


def test_profiles_that_are_refused_only_together_are_named() -> None:
    found = lint(
        profile("a", selector=SPARK, qosClass="LSR", priorityClassName="koord-prod"),
        profile("b", selector=SPARK, priorityClassName="koord-mid"),
    )
    refused = {item.name: item.expectation for item in found if item.rule == "refused"}
    assert "selects together with b: " in refused["a"]
    assert "selects together with a: " in refused["b"]
    assert [item.rule for item in found if item.severity is Severity.WARNING] == ["conflict"]


def test_profiles_whose_common_pods_are_refused_are_reported_together() -> None:
    web = {"matchLabels": {"tier": "web"}}
    found = lint(
        profile("a", **SOUND),
        profile("b", selector=web, priorityClassName="koord-prod"),
        profile("c", selector=web, schedulerName="any"),
    )
    together = [item for item in found if item.rule == "refused-together"]
    assert [(item.name, item.severity, item.field) for item in together] == [
        ("a", Severity.WARNING, "spec.qosClass")
    ]
    assert together[0].expectation.startswith("profile b selects pods with app=spark,tier=web too")


def test_profiles_that_never_meet_are_not_tried_together() -> None:
    web = {"matchLabels": {"app": "web"}}
    assert lint(profile("a", **SOUND), profile("b", selector=web, priorityClassName="koord-prod")) == []


def test_a_broken_profile_does_not_hide_what_is_wrong_with_another() -> None:
    found = lint(profile("a", selector=SPARK, probability="x"), profile("b", selector=SPARK, qosClass="BE"))
    assert [(item.name, item.rule) for item in found] == [
        ("a", "invalid-probability"),
        ("b", "refused-unless"),
    ]


# --- conflicts ---------------------------------------------------------------------------------------


def test_the_later_name_wins_a_conflict() -> None:
    [found] = lint(
        profile("b", selector=SPARK, schedulerName="one"),
        profile("a", selector={"matchLabels": {"tier": "x"}}, schedulerName="two"),
    )
    assert (found.name, found.rule, found.field, found.value) == (
        "a",
        "conflict",
        "spec.schedulerName",
        "two",
    )
    assert "profile b sets spec.schedulerName to 'one' (spec.schedulerName) and wins" in found.expectation
    assert "both select pods with app=spark,tier=x" in found.expectation


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ({"labels": {"x": "1"}}, {"labels": {"x": "2"}}, "metadata.labels[x]"),
        ({"annotations": {"x": "1"}}, {"annotations": {"x": "2"}}, "metadata.annotations[x]"),
        ({"labels": {"x": "1"}}, {"labelKeysMapping": {"app": "x"}}, "metadata.labels[x]"),
        ({"koordinatorPriority": 1}, {"labels": {"koordinator.sh/priority": "2"}}, "koordinator.sh/priority"),
        ({"schedulerName": "a"}, {"patch": {"spec": {"schedulerName": "b"}}}, "spec.schedulerName"),
        ({"patch": {"spec": {"hostIPC": True}}}, {"patch": {"spec": {"hostIPC": None}}}, "spec.hostIPC"),
        (
            {"patch": {"spec": {"containers": [{"name": "m", "image": "x"}]}}},
            {"patch": {"spec": {"containers": [{"name": "m", "image": "y"}, {"name": "n", "image": "z"}]}}},
            "spec.containers[name=m].image",
        ),
    ],
)
def test_fields_are_compared_by_what_they_write(first: Any, second: Any, place: str) -> None:
    [found] = lint(profile("a", selector=SPARK, **first), profile("b", selector=SPARK, **second))
    assert (found.name, found.rule) == ("a", "conflict")
    assert place in found.expectation


def test_profiles_that_agree_or_never_meet_do_not_fight() -> None:
    web = {"matchLabels": {"app": "web"}}
    assert (
        lint(profile("a", selector=SPARK, schedulerName="x"), profile("b", selector=SPARK, schedulerName="x"))
        == []
    )
    assert (
        lint(profile("a", selector=SPARK, schedulerName="x"), profile("b", selector=web, schedulerName="y"))
        == []
    )
    apart = [
        profile(name, selector=SPARK, namespaceSelector={"matchLabels": {"team": name}}, schedulerName=name)
        for name in "ab"
    ]
    assert lint(*apart) == []


def test_an_exception_to_a_default_is_only_noted() -> None:
    default = profile(
        "a", selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}, schedulerName="x"
    )
    exception = profile("b", selector=SPARK, schedulerName="y")
    assert one(lint(default, exception))[:2] == ("note", "overridden")
    exception["metadata"]["name"] = "0"
    found = lint(default, exception)
    assert one(found)[:2] == ("warning", "conflict")
    assert found[0].name == "0"


def test_suffixes_are_lost_or_add_up() -> None:
    suffix = profile("a", selector=SPARK, labelSuffixes={"app": "-x"})
    assert one(lint(suffix, profile("b", selector=SPARK, labels={"app": "y"})))[:2] == (
        "warning",
        "suffix-lost",
    )
    more = profile("b", selector=SPARK, labelSuffixes={"app": "-y"})
    assert one(lint(suffix, more))[:2] == ("warning", "suffixes-add-up")


def test_a_profile_that_overwrites_itself() -> None:
    spec: dict[str, Any] = {"labels": {"koordinator.sh/qosClass": "BE"}, "qosClass": "LS"}
    found = one(lint(profile(selector=SPARK, **spec)))
    assert found[:3] == ("warning", "overwrites-itself", "spec.labels[koordinator.sh/qosClass]")
