"""The arguments of NodeNUMAResource."""

from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.plugin import read_args
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy_plugins.scheduling.nodenumaresource.args import NodeNUMAResourceArgs


def read(document: dict[str, Any] | None = None) -> NodeNUMAResourceArgs:
    found = read_args(
        NodeNUMAResourceArgs, document, "args", api_version=API_VERSION, kind="NodeNUMAResourceArgs"
    )
    assert isinstance(found, NodeNUMAResourceArgs)
    return found


def test_defaults_are_koordinators() -> None:
    args = read()
    assert args.default_cpu_bind_policy == "FullPCPUs"
    for strategy in (args.scoring_strategy, args.numa_scoring_strategy):
        assert strategy.type == "LeastAllocated"
        assert [(spec.name, spec.weight) for spec in strategy.resources] == [("cpu", 1), ("memory", 1)]
    assert args.numa_allocate_strategy == "LeastAllocated"


def test_the_numa_scoring_strategy_decides_how_numa_nodes_are_chosen() -> None:
    args = read({"numaScoringStrategy": {"type": "MostAllocated"}})
    assert args.numa_allocate_strategy == "MostAllocated"


def test_an_empty_bind_policy_stays_empty() -> None:
    assert read({"defaultCPUBindPolicy": ""}).default_cpu_bind_policy == ""


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu"}]}},
            "args.scoringStrategy.resources[0].weight: Invalid value: 0: resource weight of cpu not in valid "
            "range (0, 100]",
        ),
        (
            {"numaScoringStrategy": {"type": "Random"}},
            "args.numaScoringStrategy.type: numa scoring strategy Random is not supported, expected one of "
            "MostAllocated, BalancedAllocation, LeastAllocated",
        ),
        (
            {"scoringStrategy": {"type": "BalancedAllocation"}},
            "args.scoringStrategy.type: scoring strategy BalancedAllocation is not supported",
        ),
        ({"defaultCPUBindPolicy": "Default"}, "must specified CPU bind policy FullPCPUs or SpreadByPCPUs"),
    ],
)
def test_what_koordinator_rejects_is_rejected(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(document)
    assert problem in str(caught.value)
