from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.plugin import read_args
from koordpy_plugins.scheduling.reservation.args import ReservationArgs


def read(**fields: Any) -> ReservationArgs:
    return read_args(ReservationArgs, fields, "args")


def test_defaults_are_koordinators() -> None:
    args = read(gcDurationSeconds=0, resyncIntervalSeconds=0, controllerWorkers=0)
    assert (args.gc_duration_seconds, args.gc_interval_seconds) == (86_400, 60)
    assert (args.resync_interval_seconds, args.controller_workers) == (60, 1)
    assert args.pre_allocation_config.cluster_label_key == "pod.koordinator.sh/is-pre-allocatable"
    assert not args.enable_preemption


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"minCandidateNodesPercentage": 101}, "must be in the range [0, 100]"),
        ({"minCandidateNodesAbsolute": -1}, "must be non-negative"),
        ({"gcIntervalSeconds": -1}, "must be non-negative"),
        (
            {"ignoredResources": ["cpu"]},
            "must be an extended resource name (e.g. example.com/gpu); native resources cannot be ignored",
        ),
        ({"ignoredResourceGroups": ["a/b"]}, "resource group name can't contain '/'"),
        ({"ignoredResourceGroups": ["kubernetes.io"]}, "must be usable as an extended resource prefix"),
    ],
)
def test_errors_are_reported(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**fields)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("resource", "ignored"),
    [("x.io/gpu", True), ("a.com/x/y", True), ("a.com", False), ("/x", False), ("cpu", False)],
)
def test_names_and_groups_that_are_ignored(resource: str, ignored: bool) -> None:
    args = read(ignoredResources=["x.io/gpu"], ignoredResourceGroups=["a.com"])
    assert args.ignores(resource) is ignored
