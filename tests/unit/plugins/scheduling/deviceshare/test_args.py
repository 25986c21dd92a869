"""The arguments of DeviceShare are Koordinator's."""

from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.plugin import read_args
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy_plugins.scheduling.deviceshare.args import DeviceShareArgs


def read(document: dict[str, Any] | None = None) -> DeviceShareArgs:
    found = read_args(DeviceShareArgs, document, "args", api_version=API_VERSION, kind="DeviceShareArgs")
    assert isinstance(found, DeviceShareArgs)
    return found


def test_the_defaults_are_koordinators() -> None:
    args = read()
    assert args.scoring_strategy.type == "LeastAllocated"
    assert [(spec.name, spec.weight) for spec in args.scoring_strategy.resources] == [
        ("koordinator.sh/gpu-memory-ratio", 1),
        ("koordinator.sh/gpu-memory", 1),
        ("koordinator.sh/rdma", 1),
        ("koordinator.sh/fpga", 1),
    ]
    templates = args.gpu_shared_resource_templates_config
    assert templates.config_map_namespace == "koordinator-system"
    assert templates.config_map_name == "gpu-shared-resource-templates"
    assert templates.matched_resources == ("huawei.com/npu-core",)


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        (
            {"type": "MostAllocated", "resources": [{"name": "x", "weight": 101}]},
            "args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of x not in valid "
            "range (0, 100]",
        ),
        (
            {"type": "BalancedAllocation"},
            "args.scoringStrategy.type: scoring strategy BalancedAllocation is not supported, expected "
            "one of LeastAllocated, MostAllocated",
        ),
    ],
)
def test_what_koordinator_rejects_is_rejected(strategy: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read({"scoringStrategy": strategy})
    assert str(caught.value) == problem
