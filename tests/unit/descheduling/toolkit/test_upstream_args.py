"""Decoding of arguments as Go does it over defaults, and their errors."""

from typing import Any

import pytest

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import aggregate
from koordpy.descheduling.toolkit.upstream_args import UpstreamArgs
from koordpy_plugins.descheduling.highnodeutilization.args import HighNodeUtilizationArgs
from koordpy_plugins.descheduling.lownodeutilization.args import LowNodeUtilizationArgs
from koordpy_plugins.descheduling.podlifetime.args import PodLifeTimeArgs
from koordpy_plugins.descheduling.removefailedpods.args import RemoveFailedPodsArgs
from koordpy_plugins.descheduling.removepodsviolatingtopologyspreadconstraint.args import (
    RemovePodsViolatingTopologySpreadConstraintArgs as SpreadArgs,
)


def read(type_: type[UpstreamArgs], **given: Any) -> Any:
    return config_model.read(type_, given, "args")


def text_of(type_: type[UpstreamArgs], **given: Any) -> str:
    return aggregate(read(type_, **given).problems())


def test_unknown_fields_and_the_type_are_ignored() -> None:
    args = read(
        RemoveFailedPodsArgs,
        apiVersion="v9",
        kind="Other",
        unknown=1,
        namespaces={"include": ["a"], "unknown": {}},
        labelSelector={"matchLabels": {"a": "b"}, "unknown": 1},
    )
    assert args.namespaces.include == ["a"]
    assert args.label_selector.match_labels == {"a": "b"}


@pytest.mark.parametrize("given", [{"kind": 1}, {"apiVersion": []}, {"apiVersion": "a/b/c"}])
def test_type_must_be_readable(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        read(RemoveFailedPodsArgs, **given)


def test_null_clears_what_may_be_absent() -> None:
    assert read(RemoveFailedPodsArgs).min_pod_lifetime_seconds == 3600
    assert read(RemoveFailedPodsArgs, minPodLifetimeSeconds=None).min_pod_lifetime_seconds is None
    assert read(SpreadArgs).constraints == ["DoNotSchedule"]
    assert not read(SpreadArgs, constraints=None).constraints
    assert read(SpreadArgs, topologyBalanceNodeFit=None).topology_balance_node_fit is None


def test_null_keeps_what_cannot_be_absent() -> None:
    args = read(RemoveFailedPodsArgs, includingInitContainers=None, reasons=None, exitCodes=None)
    assert (args.including_init_containers, args.reasons, args.exit_codes) == (False, [], [])


def test_null_items_are_zero_values() -> None:
    args = read(
        PodLifeTimeArgs, states=[None], exitCodes=[None, 1], conditions=[None], ownerKinds={"include": [None]}
    )
    assert (args.states, args.exit_codes, args.owner_kinds.include) == ([""], [0, 1], [""])
    assert args.conditions[0].is_empty
    assert read(HighNodeUtilizationArgs, thresholds={"cpu": None}).thresholds == {"cpu": 0}
    selector = read(
        PodLifeTimeArgs,
        labelSelector={
            "matchLabels": {"a": None},
            "matchExpressions": [None, {"key": "b", "values": [None]}],
        },
    ).label_selector
    assert selector.match_labels == {"a": ""}
    assert [item.values for item in selector.match_expressions] == [[], [""]]


def test_first_null_constraint_keeps_the_default() -> None:
    assert read(SpreadArgs, constraints=[None, None]).constraints == ["DoNotSchedule", ""]


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        (PodLifeTimeArgs, {"maxPodLifeTimeSeconds": "1"}),
        (PodLifeTimeArgs, {"maxPodLifeTimeSeconds": -1}),
        (PodLifeTimeArgs, {"maxPodLifeTimeSeconds": True}),
        (PodLifeTimeArgs, {"exitCodes": [1 << 31]}),
        (PodLifeTimeArgs, {"exitCodes": [1.5]}),
        (PodLifeTimeArgs, {"conditions": "x"}),
        (RemoveFailedPodsArgs, {"includingInitContainers": 1}),
        (RemoveFailedPodsArgs, {"labelSelector": -1}),
        (RemoveFailedPodsArgs, {"labelSelector": {"matchLabels": {"a": 1}}}),
        (HighNodeUtilizationArgs, {"thresholds": {"cpu": "1"}}),
        (HighNodeUtilizationArgs, {"thresholds": {"cpu": True}}),
    ],
)
def test_wrong_types_are_refused(type_: type[UpstreamArgs], given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"args.{next(iter(given))}"):
        read(type_, **given)


def test_errors_have_the_texts_of_the_descheduler() -> None:
    assert text_of(RemoveFailedPodsArgs, namespaces={"include": ["a"], "exclude": ["b"]}) == (
        "only one of Include/Exclude namespaces can be set"
    )
    assert text_of(
        PodLifeTimeArgs, conditions=[{}], labelSelector={"matchExpressions": [{"operator": "Bogus"}]}
    ) == (
        "[failed to get label selectors from strategy's params: "
        '"Bogus" is not a valid label selector operator, conditions[0]: at least one of type, status, '
        "reason, or minTimeSinceLastTransitionSeconds must be set]"
    )
    assert text_of(LowNodeUtilizationArgs, thresholds={"cpu": 20}) == (
        "targetThresholds config is not valid: no resource threshold is configured"
    )
    assert text_of(LowNodeUtilizationArgs, thresholds={"cpu": 20}, targetThresholds={"cpu": 10}) == (
        "thresholds' cpu percentage is greater than targetThresholds'"
    )
