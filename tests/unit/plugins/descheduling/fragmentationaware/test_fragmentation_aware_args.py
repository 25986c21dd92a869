from typing import Any

import pytest

from koordpy.api.config_model import ConfigError, read
from koordpy_plugins.descheduling.fragmentationaware.args import FragmentationAwareArgs


def args(**fields: Any) -> FragmentationAwareArgs:
    return read(FragmentationAwareArgs, fields, "args")


def test_defaults_are_koordinators() -> None:
    given = args(resources=[])
    assert given == args()
    assert given.resources == ["cpu", "memory"]
    assert (given.imbalance_threshold, given.min_improvement_threshold) == (0.15, 0.02)
    assert given.node_fit
    assert list(given.problems()) == []


def test_problems_in_order() -> None:
    given = args(
        minImprovementThreshold=-1,
        imbalanceThreshold=-0.1,
        resources=["memory", "cpu", "memory", "memory"],
    )
    assert [str(item) for item in given.problems()] == [
        'resources[2]: Duplicate value: "memory"',
        'resources[3]: Duplicate value: "memory"',
        "imbalanceThreshold: Invalid value: -0.1: must be greater than or equal to 0",
        "minImprovementThreshold: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_pod_selectors_have_no_name() -> None:
    with pytest.raises(ConfigError, match=r"podSelectors\[0\]\.name: unknown field"):
        args(podSelectors=[{"name": "s"}])
    (entry,) = args(podSelectors=[{"selector": {"matchLabels": {"a": "b"}}}]).named_pod_selectors
    assert entry.selector is not None
    assert entry.selector.match_labels == {"a": "b"}
