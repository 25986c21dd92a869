from bench import turns
from bench.report import Result


async def test_ways_are_called_in_turn_each_turn_beginning_with_another():
    called = []

    def way(name):
        async def do(turn):
            called.append((turn, name))
            return 0.001

        return do

    await turns.compare({"a": way("a"), "b": way("b")}, lambda: 1.0 + len(called), 3)
    assert called == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


async def test_medians_are_reported_and_compared_with_the_first_way():
    used, costs = [0.0], {"a": iter([1e-3, 9.0, 1e-3]), "b": iter([3e-3, 3e-3, 3e-3])}

    def way(name):
        async def do(turn):
            used[0] += next(costs[name])
            return 0.25

        return do

    found = await turns.compare({"a": way("a"), "b": way("b")}, lambda: used[0], 3, calls=2)
    assert round(found["a"]["cpu"]) == 500
    assert (round(found["b"]["cpu"]), round(found["b"]["ratio"], 6)) == (1500, 3.0)
    assert found["a"]["p50"] == 250


def test_each_way_has_a_row_to_which_rounds_are_added():
    result = Result.begin("example", cpu="CPU", ratio="ratio")
    for cpu in (1.0, 2.0):
        turns.add(result, "call", {"a": {"cpu": cpu, "ratio": 1.0}, "b": {"cpu": cpu * 2, "ratio": 2.0}})
    assert [(row.label, row.cells["cpu"]) for row in result.rows] == [
        ("call: a", [1.0, 2.0]),
        ("call: b", [2.0, 4.0]),
    ]
