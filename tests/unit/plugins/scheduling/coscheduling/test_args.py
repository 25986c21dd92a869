from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy_plugins.scheduling.coscheduling.args import CoschedulingArgs
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling


def test_defaults_are_koordinators() -> None:
    assert Coscheduling.read_args(None, "args") == CoschedulingArgs(
        default_timeout=600.0,
        controller_workers=1,
        skip_check_schedule_cycle=False,
        enable_preemption=False,
        aware_network_topology=False,
        default_match_policy="once-satisfied",
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"defaultTimeout": "-1s"},
            'args.defaultTimeout: Invalid value: "-1s": coeSchedulingArgs DefaultTimeoutSeconds invalid',
        ),
        (
            {"controllerWorkers": 0},
            "args.controllerWorkers: Invalid value: 0: coeSchedulingArgs ControllerWorkers invalid",
        ),
        (
            {"awareNetworkTopology": True, "ignoreNetworkTopologySpec": True},
            "args.ignoreNetworkTopologySpec: expected false where awareNetworkTopology is true",
        ),
    ],
)
def test_invalid_arguments_are_rejected(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Coscheduling.read_args(document, "args")
    assert str(caught.value) == problem
