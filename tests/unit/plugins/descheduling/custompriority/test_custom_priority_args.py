from typing import Any

import pytest

from koordpy.api.config_model import read
from koordpy_plugins.descheduling.custompriority.args import CustomPriorityArgs

SELECTOR = {"matchLabels": {"tier": "a"}}
LEVELS = [{"name": "a", "nodeSelector": SELECTOR}, {"name": "b", "nodeSelector": {}}]


def args(**fields: Any) -> CustomPriorityArgs:
    return read(CustomPriorityArgs, {"evictionOrder": LEVELS} | fields, "args")


def test_defaults_are_koordinators() -> None:
    given = args(mode="")
    assert given.node_fit
    assert not given.paused
    assert not given.auto_cordon
    assert given.mode == "BestEffort"
    assert not given.drains_nodes
    assert list(given.problems()) == []


def test_an_unknown_mode_behaves_as_best_effort() -> None:
    given = args(mode="Bogus")
    assert not given.drains_nodes
    assert list(given.problems()) == []
    assert args(mode="DrainNode").drains_nodes


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        ([], "CustomPriority requires at least 2 resource priority levels"),
        ([LEVELS[0], {"nodeSelector": {}}], "priority name cannot be empty"),
        ([LEVELS[0], LEVELS[0]], "duplicate priority name: a"),
        ([{"name": "x"}, {"name": "y"}], "priority x must have a nodeSelector"),
    ],
)
def test_the_first_problem_of_the_levels_is_reported(levels: list[Any], problem: str) -> None:
    assert [str(item) for item in args(evictionOrder=levels).problems()] == [problem]


def test_an_invalid_pod_selector_is_named() -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}
    (problem,) = args(podSelectors=[{"name": "s", "selector": bad}]).problems()
    assert str(problem) == (
        "error initializing pod selector filter: invalid labelSelector s, "
        '"Bogus" is not a valid label selector operator'
    )
