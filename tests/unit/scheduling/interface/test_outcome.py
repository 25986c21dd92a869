"""The best nodes of an attempt, also after nodes have come and gone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordpy.scheduling.explain.explained import Best
from koordpy.scheduling.interface.outcome import Scores
from tests.unit.scheduling.worlds import node, world


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.lists(st.integers(1, 14), max_size=4))
def test_the_best_nodes_come_first_and_equal_ones_keep_their_order(
    totals: list[int], counts: list[int]
) -> None:
    nodes = world([node(f"n{i}") for i in range(len(totals))]).nodes.all()
    scores = Scores(nodes, {}, np.array(totals, np.int64))
    for count in counts:
        best = list(scores.top(count))
        assert [totals[i] for i in best] == sorted(totals, reverse=True)[:count]
        if count >= len(totals):
            assert best == sorted(range(len(totals)), key=lambda i: -totals[i])


def test_the_chosen_node_is_shown_with_its_scores_even_if_it_is_gone() -> None:
    cluster = world([node(f"n{i}") for i in range(20)])
    nodes = cluster.nodes.all()
    total = np.arange(20, dtype=np.int64)[::-1].copy()
    scores = Scores(nodes, {"Spread": total // 2}, total)
    for change in (
        lambda: None,
        lambda: cluster.nodes.remove_node("n15"),
        lambda: cluster.nodes.set_node(node("another")),  # in the row that was free
        lambda: cluster.nodes.set_node(node("n15")),  # in another row than before
    ):
        change()
        best = Best.of(scores, 3, chosen="n15")
        assert best.names == ["n0", "n1", "n2", "n15"]
        assert best.totals == [19, 18, 17, 4]
        assert best.by_plugin == {"Spread": [9, 9, 8, 2]}
    assert Best.of(scores, 3, chosen="n1").names == ["n0", "n1", "n2"]
    assert Best.of(scores, 3, chosen="another").names == ["n0", "n1", "n2"]
