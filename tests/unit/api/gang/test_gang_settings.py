"""What pods and PodGroups say about gangs, valid or not."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id, gang_name, names_pod_group
from koordpy.api.gang.settings import (
    GangDefaults,
    GangSettings,
    GangSource,
    settings_of_pod,
    settings_of_pod_group,
)
from koordpy.api.gang.topology_spec import GangTopologySpec, GatherRule
from koordpy.api.koordinator import PodGroup
from koordpy.api.scheme import decode

PREFIX = "gang.scheduling.koordinator.sh"
GROUP = "pod-group.scheduling.sigs.k8s.io"
DEFAULTS = GangDefaults(600.0, "once-satisfied")


def pod(labels: dict[str, str] | None = None, **annotations: str) -> Pod:
    notes = {f"{PREFIX}/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return decode(Pod, {"metadata": {"namespace": "ns", "labels": labels or {}, "annotations": notes}})


def told(labels: dict[str, str] | None = None, **annotations: str) -> GangSettings:
    named = pod(labels, min_available="2", **annotations)
    found = settings_of_pod(named, "ns/g", DEFAULTS)
    assert found is not None
    return found


def test_the_first_name_that_is_not_empty_counts() -> None:
    every = {GROUP: "crd", f"{GROUP}/name": "label"}
    assert gang_name(pod(every, name="note")) == "crd"
    assert gang_name(pod({**every, GROUP: ""}, name="note")) == "label"
    assert gang_id(pod(name="note")) == "ns/note"
    assert (gang_id(pod()), names_pod_group(pod(every)), names_pod_group(pod(name="x"))) == ("", True, False)


@pytest.mark.parametrize("text", ["", "x", "1.5", "2147483648", "0x2", "1_0", " 2"])
def test_without_a_valid_minimum_there_is_no_gang(text: str) -> None:
    assert settings_of_pod(pod(min_available=text), "ns/g", DEFAULTS) is None


def test_the_label_for_the_minimum_goes_first_even_if_it_is_invalid() -> None:
    assert told({f"{GROUP}/min-available": "+3"}).min_member == 3
    assert settings_of_pod(pod({f"{GROUP}/min-available": "x"}, min_available="2"), "g", DEFAULTS) is None


def test_defaults_apply_where_a_gang_says_nothing() -> None:
    assert told() == GangSettings(2, 2, 600.0, ("ns/g",))


@pytest.mark.parametrize(
    ("annotations", "field", "value"),
    [
        ({"total_number": "1"}, "total", 2),
        ({"total_number": "5"}, "total", 5),
        ({"total_number": "x"}, "total", 2),
        ({"mode": "NonStrict"}, "mode", "NonStrict"),
        ({"mode": "nonstrict"}, "mode", "Strict"),
        ({"waiting_time": "90s"}, "wait_seconds", 90.0),
        ({"waiting_time": "-90s"}, "wait_seconds", 600.0),
        ({"waiting_time": "90"}, "wait_seconds", 600.0),
        ({"match_policy": "only-waiting"}, "match_policy", "only-waiting"),
        ({"match_policy": "odd"}, "match_policy", "once-satisfied"),
        ({"groups": '["ns/h","ns/g"]'}, "group", ("ns/g", "ns/h")),
        ({"groups": '["ns/h",1]'}, "group", ("", "ns/h")),
        ({"groups": '["ns/h"'}, "group", ("ns/g",)),
        ({"groups": "{}"}, "group", ("ns/g",)),
        ({"groups": "[]"}, "group", ("ns/g",)),
    ],
)
def test_invalid_values_are_replaced(annotations: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(told(**annotations), field) == value


def test_the_alias_of_the_match_policy_counts_where_the_annotation_is_empty() -> None:
    named = pod(min_available="2", match_policy="")
    named.metadata.annotations[f"{GROUP}/match-policy"] = "only-waiting"
    found = settings_of_pod(named, "ns/g", DEFAULTS)
    assert found is not None
    assert found.match_policy == "only-waiting"


def test_requirements_of_the_network_are_read_as_go_reads_them() -> None:
    text = '{"GatherStrategy": [{"layer": "L", "strategy": "MustGather", "podCountMultiple": 4}, null]}'
    rules = (GatherRule("L", "MustGather", 4), GatherRule("", ""))
    assert told(network_topology_spec=text).topology_spec == GangTopologySpec(rules)
    assert told(network_topology_spec="null").topology_spec == GangTopologySpec()
    assert told(network_topology_spec='{"gatherStrategy": 1}').topology_spec is None


@pytest.mark.parametrize(("seconds", "waits"), [(None, 600.0), (0, 600.0), (-1, 600.0), (90, 90.0)])
def test_a_pod_group_has_minimum_and_wait_time_in_its_spec(seconds: int | None, waits: float) -> None:
    meta = {"namespace": "ns", "name": "g", "annotations": {f"{PREFIX}/waiting-time": "5s"}}
    spec = {"minMember": 3, "scheduleTimeoutSeconds": seconds}
    group = decode(PodGroup, {"metadata": meta, "spec": spec})
    found = settings_of_pod_group(group, "ns/g", DEFAULTS)
    assert found == GangSettings(3, 3, waits, ("ns/g",), source=GangSource.POD_GROUP)
    assert found.group_id == "ns/g"
