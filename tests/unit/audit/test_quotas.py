"""Whether the audit finds quotas that are used or promised twice."""

from typing import Any

from koordpy.api import extension
from koordpy.api.core import Pod
from tests.unit.audit.books import findings, names, node, only, pod, quota, report


def member(name: str, of: str, cpu: str = "2", **more: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, labels={extension.LABEL_QUOTA_NAME: of}, **more)


def test_use_up_to_the_maximum_is_clean() -> None:
    assert findings(node(), quota("q", most={"cpu": "4"}), member("a", "q"), member("b", "q")) == []


def test_use_beyond_the_maximum_names_the_pods() -> None:
    found = only(node(), quota("q", most={"cpu": "3"}), member("a", "q"), member("b", "q"))
    assert (found.what, found.held, found.limit) == ("ElasticQuota q cpu", "4", "3")
    assert names(found) == ["ElasticQuota q", "Pod default/a", "Pod default/b"]
    assert found.severity == "error"


def test_what_a_quota_does_not_limit_does_not_count() -> None:
    assert findings(node(), quota("q", most={"memory": "1"}), member("a", "q")) == []


def test_pods_count_for_the_quotas_above_theirs() -> None:
    tree = [
        quota("top", most={"cpu": "3"}, labels={extension.LABEL_QUOTA_IS_PARENT: "true"}),
        quota("x", parent="top", most={"cpu": "4"}),
        quota("y", parent="top", most={"cpu": "4"}),
    ]
    found = only(node(), *tree, member("a", "x"), member("b", "y"))
    assert (found.severity, found.what, found.held) == ("warning", "ElasticQuota top cpu", "4")
    assert names(found) == ["ElasticQuota top", "ElasticQuota x", "ElasticQuota y"]


def test_a_loop_of_parents_ends() -> None:
    loop = [quota("x", parent="y", most={"cpu": "1"}), quota("y", parent="x", most={"cpu": "1"})]
    assert {found.what for found in findings(node(), *loop, member("a", "x"))} == {
        "ElasticQuota x cpu",
        "ElasticQuota y cpu",
    }


def test_namespaces_have_quotas_too() -> None:
    bound = quota("q", most={"cpu": "1"}, annotations={extension.ANNOTATION_QUOTA_NAMESPACES: '["default"]'})
    assert only(node(), bound, pod("a", requests={"cpu": "2"})).what == "ElasticQuota q cpu"


def test_a_label_of_an_unknown_quota_means_the_default_one() -> None:
    bound = quota("q", most={"cpu": "1"}, annotations={extension.ANNOTATION_QUOTA_NAMESPACES: '["default"]'})
    assert findings(node(), bound, member("a", "gone")) == []


def test_minimums_of_children_within_that_of_the_parent() -> None:
    children = [quota(name, parent="top", most={"cpu": "9"}, least={"cpu": "3"}) for name in "xy"]
    assert findings(node(), quota("top", most={"cpu": "9"}, least={"cpu": "6"}), *children) == []
    found = only(node(), quota("top", most={"cpu": "9"}, least={"cpu": "5"}), *children)
    assert (found.held, found.limit) == ("6", "5")
    assert names(found) == ["ElasticQuota top", "ElasticQuota x", "ElasticQuota y"]


def test_minimums_that_may_be_forced_are_left_out() -> None:
    forced = {extension.LABEL_QUOTA_ALLOW_FORCE_UPDATE: "true"}
    children = [quota(name, parent="top", least={"cpu": "3"}, labels=forced) for name in "xy"]
    assert findings(node(), quota("top", least={"cpu": "5"}), *children) == []


def test_a_status_that_differs_is_a_warning() -> None:
    found = only(node(), quota("q", most={"cpu": "4"}, used={"cpu": "3"}), member("a", "q"))
    assert (found.severity, found.held, found.limit) == ("warning", "3", "2")


def test_a_status_may_leave_out_pods_that_are_being_deleted() -> None:
    leaving = [member("a", "q"), member("b", "q", leaving=True)]
    for used in ("2", "4"):
        assert findings(node(), quota("q", most={"cpu": "4"}, used={"cpu": used}), *leaving) == []


def test_a_status_that_no_scheduler_keeps_is_not_compared() -> None:
    checked = report(node(), quota("q", most={"cpu": "4"}), member("a", "q"))
    assert checked.findings == []
    assert "statuses" not in next(item for item in checked.checks if item.check == "quotas").counts
