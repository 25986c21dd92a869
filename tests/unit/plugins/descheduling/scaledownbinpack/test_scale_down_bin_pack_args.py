from typing import Any

import pytest

from koordpy.api.config_model import read
from koordpy_plugins.descheduling.scaledownbinpack.args import ScaleDownBinPackArgs


def args(**fields: Any) -> ScaleDownBinPackArgs:
    return read(ScaleDownBinPackArgs, fields, "args")


def test_defaults_are_koordinators() -> None:
    given = args(strategy="", resources=[])
    assert given.strategy == "CalculateOnly"
    assert not given.evicts
    assert given.resources == ["cpu", "memory"]
    assert given.resource_weights == {"cpu": 1.0, "memory": 1.0}
    assert list(given.problems()) == []


def test_weights_are_completed_and_those_of_other_resources_count() -> None:
    given = args(resources=["cpu", "gpu"], resourceWeights={"gpu": 2, "memory": 3})
    assert given.resource_weights == {"cpu": 1.0, "gpu": 2.0, "memory": 3.0}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"strategy": "Bogus"},
            'strategy: Invalid value: "Bogus": strategy must be CalculateOnly or EvictDirectly',
        ),
        (
            {"strategy": "EvictDirectly"},
            "maxPodsToEvict: Invalid value: null: maxPodsToEvict must be positive when strategy is "
            "EvictDirectly",
        ),
        (
            {"resourceWeights": {"cpu": -1.5}},
            "resourceWeights[cpu]: Invalid value: -1.5: weights must be positive finite floats",
        ),
        (
            {"resourceWeights": {"cpu": 0}},
            "resourceWeights[cpu]: Invalid value: 0: weights must be positive finite floats",
        ),
    ],
)
def test_problems_have_koordinators_words(fields: dict[str, Any], problem: str) -> None:
    assert [str(item) for item in args(**fields).problems()] == [problem]
