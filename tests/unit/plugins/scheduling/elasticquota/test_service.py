"""The REST API of quotas."""

from typing import Any

import pytest

from koordpy_plugins.scheduling.elasticquota.service import QuotaService

from .controllers.quotas import Quotas

FIELDS = [
    "name",
    "parentName",
    "isParent",
    "runtimeVersion",
    "allowLentResource",
    "tree",
    "max",
    "min",
    "autoScaleMin",
    "used",
    "nonPreemptibleUsed",
    "request",
    "nonPreemptibleRequest",
    "sharedWeight",
    "runtime",
    "childRequest",
    "allocated",
    "guaranteed",
    "selfUsed",
    "selfNonPreemptibleUsed",
    "selfRequest",
    "selfNonPreemptibleRequest",
]


def service() -> tuple[Quotas, QuotaService]:
    quotas = Quotas()
    quotas.quota("parent", is_parent=True, max={"cpu": "10"})
    quotas.quota("a", parent="parent", max={"cpu": "10"}, min={"cpu": "1"})
    quotas.pod("p", "a", cpu="500m")
    return quotas, QuotaService(quotas.trees)


def test_a_summary_has_the_members_of_koordinators_in_its_order() -> None:
    _, made = service()
    found = made.quota("a")
    assert list(found) == FIELDS
    assert (found["parentName"], found["isParent"], found["tree"]) == ("parent", False, "")
    assert (found["max"], found["min"], found["used"]) == ({"cpu": "10"}, {"cpu": "1"}, {"cpu": "500m"})


def test_pods_are_shown_on_request_and_left_out_where_there_are_none() -> None:
    _, made = service()
    pods: Any = made.quota("a", includePods="true")["podCache"]
    assert pods == {"d/p": {"isAssigned": True, "resource": {"cpu": "500m"}}}
    assert "podCache" not in made.quota("parent", includePods="true")
    assert "podCache" not in made.quota("a", includePods="1")


def test_all_quotas_but_the_root_are_listed() -> None:
    _, made = service()
    names = {"a", "parent", "koordinator-default-quota", "koordinator-system-quota"}
    assert set(made.quotas()) == names
    assert made.quotas(tree="other") == {}
    assert made.quota("koordinator-root-quota")["name"] == "koordinator-root-quota"


def test_an_unknown_quota_is_not_found() -> None:
    _, made = service()
    with pytest.raises(LookupError, match="cannot find quota nobody"):
        made.quota("nobody")
