"""Runs of equal values."""

from itertools import groupby

import numpy as np
import pytest

from koordpy.lib import runs


@pytest.mark.parametrize("values", [[], [3], [0, 0], [1, 2, 3], [5, 5, -1, -1, -1, 5, 7, 7]])
def test_runs_are_those_of_groupby(values: list[int]) -> None:
    array = np.array(values, np.int64)
    first = runs.starts(array)
    groups = [len(list(group)) for _, group in groupby(values)]
    assert runs.sizes(first, len(array)).tolist() == groups
    assert first.tolist() == [sum(groups[:i]) for i in range(len(groups))]
