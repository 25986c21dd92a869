import itertools

import numpy as np
import pytest

from koordpy.cluster.columns import Int64
from koordpy_plugins.scheduling.nodenumaresource.all_nodes.scores import scores
from koordpy_plugins.scheduling.nodenumaresource.scorer import Scorer


@pytest.mark.parametrize("most", [True, False])
@pytest.mark.parametrize("capacity", list(itertools.product((0, 10), repeat=4)))
def test_scores_of_sets_and_nodes_are_those_of_each_alone(most: bool, capacity: tuple[int, ...]) -> None:
    """Of two sets on two nodes, any of which may not have the resource."""
    scorer = Scorer(most, {"cpu": 2, "memory": 1})
    there = {"cpu": np.array(capacity).reshape(2, 2), "memory": np.full((2, 2), 8)}
    used, asked = {"cpu": 3, "memory": 4}, {"cpu": 2, "memory": 1}

    def column(name: str) -> tuple[Int64, Int64]:
        return np.full((2, 2), used[name]), there[name]

    def alone(at: tuple[int, int]) -> int:
        return scorer.score(used.__getitem__, lambda name: int(there[name][at]), asked.__getitem__)

    found = scores(scorer, (2, 2), column, lambda name: np.full(2, asked[name]))
    assert found.tolist() == [[alone((of_set, node)) for node in range(2)] for of_set in range(2)]
