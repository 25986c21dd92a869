"""Quotas: their tree, what exceeds a limit, who borrows from whom, and which pods would have to go."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import ObjectMeta
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.scheduling.explain.plugin_services import PluginServices
from koordpy.scheduling.explain.quotas.causes import quota_causes
from koordpy.scheduling.explain.quotas.explanation import QuotaExplainer
from koordpy.scheduling.interface import APIService, Plugin
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import node, pod

from ..services import profiles_with

ROOT = "koordinator-root-quota"


def summary(name: str, parent: str = ROOT, **amounts: Any) -> dict[str, Any]:
    """Return a quota as Koordinator's REST API has it; amounts are of CPU."""
    lists = {key: {"cpu": value} for key, value in amounts.items() if key not in ("lends", "podCache")}
    return {
        "name": name,
        "parentName": parent,
        "isParent": False,
        "allowLentResource": amounts.get("lends", True),
        "tree": "",
        **lists,
        **({"podCache": amounts["podCache"]} if "podCache" in amounts else {}),
    }


TEAMS = {
    "teams": summary("teams", min="100", max="200", runtime="100", used="90", request="120"),
    "a": summary(
        "a",
        "teams",
        min="20",
        max="100",
        runtime="40",
        used="38",
        request="60",
        podCache={
            "default/low": {"isAssigned": True, "resource": {"cpu": "2"}},
            "default/keep": {"isAssigned": True, "resource": {"cpu": "8"}},
            "default/high": {"isAssigned": True, "resource": {"cpu": "28"}},
            "default/new": {"isAssigned": False, "resource": {"cpu": "4"}},
        },
    ),
    "b": summary("b", "teams", min="20", max="60", runtime="50", used="50", request="50"),
    "c": summary("c", "teams", min="60", max="60", runtime="10", used="2", request="2"),
    "d": summary("d", "teams", min="10", max="60", runtime="10", used="0", request="0", lends=False),
}


def explainer(
    *pods: Pod,
    quotas: dict[str, Any] = TEAMS,
    label_only: bool = False,
    overhead: bool = True,
    **args: Any,
) -> QuotaExplainer:
    class Quotas(Plugin, APIService):
        name = "ElasticQuota"
        args: ElasticQuotaArgs

        def endpoints(self) -> Any:
            return {
                "quotas": lambda tree="": quotas,
                "quotas/{name}": lambda name, **_: quotas[name],
            }

    known = cluster(node("n", cpu=64), *pods)
    known.store(ElasticQuota).put(ElasticQuota(metadata=ObjectMeta(name="a", namespace="a")))
    profiles = profiles_with(Quotas, known)
    for framework in profiles.frameworks.values():
        for plugin in framework.plugins:
            if plugin.name == Quotas.name:
                plugin.args = ElasticQuotaArgs(**args)
    return QuotaExplainer(PluginServices(profiles), known, label_only=label_only, overhead=overhead)


def of_team(name: str, cpu: str = "4", *, quota: str = "a", **more: Any) -> Pod:
    labels = {"quota.scheduling.koordinator.sh/name": quota, **more.pop("labels", {})}
    return pod(name, labels=labels, cpu=cpu, **more)


PODS = (
    of_team("low", "2", on="n", spec={"priority": 1}),
    of_team(
        "keep",
        "8",
        on="n",
        spec={"priority": 1},
        labels={"quota.scheduling.koordinator.sh/preemptible": "false"},
    ),
    of_team("high", "28", on="n", spec={"priority": 9}),
)


def test_the_tree_lists_each_quota_after_its_parent_with_what_it_borrows_and_lends() -> None:
    tree = explainer().quotas().model()
    assert [(quota.name, quota.depth) for quota in tree.quotas] == [
        ("teams", 0),
        ("a", 1),
        ("b", 1),
        ("c", 1),
        ("d", 1),
    ]
    found = {quota.name: quota.resources[0] for quota in tree.quotas}
    assert (found["a"].borrowed, found["a"].lent, found["a"].used_percent) == ("18", "", 95.0)
    assert (found["c"].borrowed, found["c"].lent) == ("", "58")
    assert found["d"].lent == ""
    assert tree.limited_by == "runtime"


def test_a_part_of_the_tree_can_be_chosen() -> None:
    quotas = explainer().quotas()
    assert [quota.name for quota in quotas.model("a").quotas] == ["a"]
    with pytest.raises(LookupError, match="quota nobody does not exist"):
        quotas.model("nobody")


def test_a_quota_without_room_names_the_amounts_the_borrowers_and_the_pods_that_would_have_to_go() -> None:
    new = of_team("new", spec={"priority": 5})
    found = explainer(*PODS, new).explain_pod(new)
    [exceeded] = found.exceeded
    assert (exceeded.quota, exceeded.resource, exceeded.kind) == ("a", "cpu", "runtime")
    assert (exceeded.limit, exceeded.used, exceeded.request, exceeded.short) == ("40", "38", "4", "2")
    assert [quota.name for quota in found.path] == ["a", "teams"]
    [sharing] = [one for one in found.sharing if one.parent == "teams"]
    assert [(share.quota, share.amount) for share in sharing.borrowers] == [("b", "30"), ("a", "18")]
    assert [(share.quota, share.amount) for share in sharing.lenders] == [("c", "58")]
    # The pod that must not be preempted, and the one with a higher priority, stay.
    assert [freed.pod for freed in found.to_free] == ["default/low"]
    [cause] = quota_causes(new, found)
    assert cause.cause == "QuotaExceeded"
    assert "quota a has no room for cpu: 38 used and 4 requested, runtime quota 40 (2 short)" in cause.message
    assert "it has room once default/low ends, which has a lower priority" in cause.fix
    assert "over their min: b by 30" in cause.fix


def test_a_pod_that_terminates_anyway_is_the_first_that_makes_room() -> None:
    new = of_team("new", spec={"priority": 5})
    ends = of_team("keep", "8", on="n", spec={"priority": 9})
    ends.metadata.deletion_timestamp = "2026-03-01T12:00:00Z"
    found = explainer(*(each for each in PODS if each.metadata.name != "keep"), ends, new).explain_pod(new)
    assert [(freed.pod, freed.is_terminating) for freed in found.to_free] == [("default/keep", True)]
    [cause] = quota_causes(new, found)
    assert "it has room once default/keep ends, which terminates already" in cause.fix


def test_no_pod_is_named_if_all_of_them_together_are_not_enough() -> None:
    new = of_team("new", "20", spec={"priority": 5})
    found = explainer(*PODS, new).explain_pod(new)
    assert found.to_free == []
    [cause] = quota_causes(new, found)
    assert cause.fix.startswith("wait until pods of a end; its max is 100")


def test_parents_count_where_the_plugin_compares_them() -> None:
    quotas = {**TEAMS, "teams": {**TEAMS["teams"], "used": {"cpu": "99"}}, "a": {**TEAMS["a"], "used": {}}}
    new = of_team("new")
    assert explainer(new, quotas=quotas).explain_pod(new).exceeded == []
    found = explainer(new, quotas=quotas, enable_check_parent_quota=True).explain_pod(new)
    assert [(one.quota, one.short) for one in found.exceeded] == [("teams", "3")]


def test_without_runtime_quotas_max_is_the_limit() -> None:
    new = of_team("new", "70")
    found = explainer(new, enable_runtime_quota=False).explain_pod(new)
    assert [(one.kind, one.limit) for one in found.exceeded] == [("max", "100")]
    [cause] = quota_causes(new, found)
    assert "or raise max of a" in cause.fix


def test_a_pod_that_cannot_be_preempted_must_fit_into_min() -> None:
    quotas = {"a": {**TEAMS["a"], "nonPreemptibleUsed": {"cpu": "18"}, "used": {"cpu": "18"}}}
    new = of_team("new", labels={"quota.scheduling.koordinator.sh/preemptible": "false"})
    found = explainer(new, quotas=quotas).explain_pod(new)
    assert [(one.kind, one.limit, one.short) for one in found.exceeded] == [("min", "20", "2")]
    [cause] = quota_causes(new, found)
    assert cause.fix.startswith("raise min of a")


def test_a_pod_with_room_has_no_cause() -> None:
    new = of_team("new", "1")
    assert list(quota_causes(new, explainer(*PODS, new).explain_pod(new))) == []


@pytest.mark.parametrize("overhead", [True, False])
def test_overhead_counts_unless_the_gate_says_otherwise(overhead: bool) -> None:
    new = of_team("new", "1", spec={"overhead": {"cpu": "4"}})
    found = explainer(new, overhead=overhead).explain_pod(new)
    assert found.request["cpu"] == ("5" if overhead else "1")
    assert bool(found.exceeded) is overhead


def test_a_label_with_an_unknown_quota_is_reported() -> None:
    quotas = {**TEAMS, "koordinator-default-quota": summary("koordinator-default-quota", max=1 << 62)}
    new = of_team("new", quota="gone")
    found = explainer(new, quotas=quotas).explain_pod(new)
    assert found.quota == "koordinator-default-quota"
    [cause] = quota_causes(new, found)
    assert cause.cause == "QuotaMissing"
    assert "names quota gone, which does not exist" in cause.message


def test_pods_of_a_namespace_with_a_quota_of_its_name_are_in_it() -> None:
    new = pod("new", namespace="a", cpu="1")
    assert explainer(new).explain_pod(new).quota == "a"
    with pytest.raises(LookupError, match="is in no quota"):
        explainer(new, label_only=True).explain_pod(new)


def test_an_over_used_quota_names_the_pods_that_would_have_to_go() -> None:
    quotas = {**TEAMS, "a": {**TEAMS["a"], "runtime": {"cpu": "36"}}}
    found = explainer(*PODS, quotas=quotas).explain("a")
    assert [(one.quota, one.resource, one.short) for one in found.exceeded] == [("a", "cpu", "2")]
    assert [freed.pod for freed in found.to_free] == ["default/low"]
    assert found.pods == 3


def test_amounts_without_a_limit_are_shown_as_such() -> None:
    quotas = {"koordinator-default-quota": summary("koordinator-default-quota", max=1844674407370955161)}
    [quota] = explainer(quotas=quotas).quotas().model().quotas
    assert (quota.resources[0].max, quota.resources[0].limit) == ("no limit", "")


def test_the_default_quota_borrows_nothing() -> None:
    quotas = {"koordinator-default-quota": summary("koordinator-default-quota", max=1 << 60, used="5")}
    [quota] = explainer(quotas=quotas).quotas().model().quotas
    assert (quota.resources[0].used, quota.resources[0].borrowed) == ("5", "")
