"""What the doctor finds wrong with quotas, one thing at a time."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import decode
from koordpy.doctor.finding import Finding, State
from koordpy.doctor.quotas import examine
from koordpy.testing.objects import node, pod

PREFIX = "quota.scheduling.koordinator.sh"


def quota(
    name: str,
    least: str = "10",
    most: str = "20",
    *,
    parent: str = "",
    is_parent: bool = False,
    namespace: str = "koordinator-system",
    notes: Mapping[str, str] = {},
    tree: str = "",
    used: str = "0",
) -> ElasticQuota:
    labels = {f"{PREFIX}/is-parent": str(is_parent).lower()}
    labels |= {f"{PREFIX}/parent": parent} if parent else {}
    labels |= {f"{PREFIX}/tree-id": tree} if tree else {}
    annotations = {f"{PREFIX}/{key}": value for key, value in notes.items()}
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
        "status": {"used": {"cpu": used}},
    }
    return decode(ElasticQuota, document)


def found(*quotas: ElasticQuota, pods: Any = (), cpu: int = 999, revokes: bool = False) -> list[Finding]:
    return list(examine(quotas, pods, [node("n", cpu=cpu)], revokes=revokes))


def test_a_sound_tree_has_no_findings() -> None:
    pods = [pod("p", labels={f"{PREFIX}/name": "b"}), pod("q")]
    assert found(quota("a", "20", "40", is_parent=True), quota("b", parent="a"), pods=pods) == []


@pytest.mark.parametrize(
    ("quotas", "subject", "state", "message"),
    [
        ([quota("a", parent="gone")], "a", State.PROBLEM, "its parent gone does not exist"),
        (
            [quota("a", "20", is_parent=False), quota("b", parent="a")],
            "b",
            State.WARNING,
            "its parent a is not marked as a parent",
        ),
        (
            [quota("a", is_parent=True, tree="1"), quota("b", parent="a", tree="2")],
            "b",
            State.PROBLEM,
            "is in tree 2, and its parent a in 1",
        ),
        (
            [quota("a", is_parent=True), quota("b", parent="a"), quota("c", "1", parent="a")],
            "a",
            State.WARNING,
            "the mins of its 2 children add up to more than its own (cpu 11 > 10)",
        ),
        (
            [quota("a", "30", "20")],
            "koordinator-system/a",
            State.PROBLEM,
            "is invalid: resourceKey cpu of quota a min 30 > max 20",
        ),
        (
            [quota("a"), quota("a", namespace="other")],
            "a",
            State.PROBLEM,
            "exists in several namespaces",
        ),
        (
            [quota(name, notes={"namespaces": json.dumps(["shop"])}) for name in ("a", "b")],
            "namespace shop",
            State.PROBLEM,
            "is bound to 2 quotas (a, b)",
        ),
        (
            [quota("a", "600", "900"), quota("b", "600", "900")],
            "cluster",
            State.WARNING,
            "add up to more than the nodes offer (cpu 1200 > 999)",
        ),
    ],
)
def test_what_is_wrong_is_named(quotas: list[ElasticQuota], subject: str, state: State, message: str) -> None:
    [finding] = found(*quotas)
    assert (finding.subject, finding.state) == (subject, state)
    assert message in finding.message
    assert finding.fix


def test_a_quota_below_itself_is_reported() -> None:
    cycle = [quota("a", parent="b", is_parent=True), quota("b", parent="a", is_parent=True)]
    assert [finding.message for finding in found(*cycle)] == ["is below itself"] * 2


def test_pods_in_parents_and_in_unknown_quotas_are_reported() -> None:
    pods = [pod(name, labels={f"{PREFIX}/name": place}) for name, place in (("p", "a"), ("q", "gone"))]
    first, second = found(quota("a", is_parent=True), quota("b", parent="a"), pods=pods)
    assert (first.subject, first.message.startswith("default/p is in a quota with children")) == ("a", True)
    assert (second.subject, "which does not exist" in second.message) == ("gone", True)


def test_over_used_quotas_are_noted_with_what_happens_to_their_pods() -> None:
    over = quota("a", notes={"runtime": '{"cpu":"12"}'}, used="15")
    [finding] = found(over)
    assert finding.state is State.NOTE
    assert "(cpu 15 > 12)" in finding.message
    assert "monitorAllQuotas" in finding.fix
    [finding] = found(over, revokes=True)
    assert "are evicted after delayEvictTime" in finding.fix
