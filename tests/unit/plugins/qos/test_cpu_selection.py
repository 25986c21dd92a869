"""Which CPUs best-effort pods get: Koordinator's pinned examples, and what holds for any machine."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.agent.interface import Processor
from koordpy_plugins.qos.cpusuppress.cpu_selection import by_pool, choose, pick


def machine(*cores: tuple[int, int, int, tuple[int, ...]]) -> list[Processor]:
    """Return processors from (core, socket, node, CPUs)."""
    return [
        Processor(cpu=cpu, core=core, socket=socket, node=node)
        for core, socket, node, cpus in cores
        for cpu in cpus
    ]


ACROSS = machine((0, 0, 0, (0, 4)), (1, 0, 0, (1, 5)), (2, 1, 1, (2, 6)), (3, 1, 1, (3, 7)))
ALONG = machine((0, 0, 0, (0, 1)), (1, 0, 0, (2, 3)), (2, 1, 1, (4, 5)), (3, 1, 1, (6, 7)))
FOUR_SOCKETS = machine(
    *((core, core // 2, core // 2 // 2, (2 * core, 2 * core + 1)) for core in range(8)),
)


@pytest.mark.parametrize(
    ("processors", "count", "expected"),
    [
        (ACROSS, 3, [0, 4, 2]),
        (ALONG, 3, [0, 1, 4]),
        (FOUR_SOCKETS, 5, [0, 1, 4, 5, 8]),
        (FOUR_SOCKETS, 16, [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]),
        ([], 0, []),
        (ALONG, 0, []),
        (ALONG, 1, [0]),
        (ALONG, 9, []),
        ([], 1, []),
        (machine((0, 0, 0, (0,)), (1, 0, 0, (1,)), (2, 0, 0, (2,))), 2, [0, 1]),
    ],
)
def test_whole_cores_are_taken_from_all_nodes_in_turn(
    processors: list[Processor], count: int, expected: list[int]
) -> None:
    assert pick(count, processors) == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_processors_does_not_matter(seed: int) -> None:
    shuffled = list(FOUR_SOCKETS)
    random.Random(seed).shuffle(shuffled)
    assert pick(5, shuffled) == [0, 1, 4, 5, 8]


processors = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.integers(0, 3)), max_size=40).map(
    lambda places: [Processor(cpu, core, socket, node) for cpu, (core, socket, node) in enumerate(places)]
)


@given(processors, st.integers(-1, 45))
def test_the_right_number_is_taken_or_none(available: list[Processor], count: int) -> None:
    taken = pick(count, available)
    assert len(taken) == (count if 0 < count <= len(available) else 0)
    assert len(set(taken)) == len(taken)
    assert set(taken) <= {processor.cpu for processor in available}


@given(processors, processors, st.integers(0, 45))
def test_choosing_from_two_kinds_never_takes_more_than_requested(
    lsr: list[Processor], shared: list[Processor], count: int
) -> None:
    shared = [Processor(p.cpu + 100, p.core, p.socket, p.node) for p in shared]
    chosen = choose(count, lsr, shared)
    assert len(chosen) <= count
    assert chosen <= {p.cpu for p in lsr} | {p.cpu for p in shared}
    if count <= len(lsr) + len(shared):
        assert (
            len(chosen) == count
            or count * len(lsr) // (len(lsr) + len(shared)) > len(lsr)
            or (count - count * len(lsr) // (len(lsr) + len(shared)) > len(shared))
        )


def test_pools_decide_who_owns_a_cpu() -> None:
    lsr, shared = by_pool(ALONG, {0: "LSR", 6: "LSR", 7: "LSE", 1: "LS", 2: "BE"}, {3})
    assert [p.cpu for p in lsr] == [0, 6]
    assert [p.cpu for p in shared] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        (set(), {2, 3, 4}),
        ({3}, {0, 4, 5}),
        ({0, 1, 5, 6}, {2, 3, 4}),
        ({1, 2, 3, 4, 5, 6}, set()),
    ],
)
def test_reserved_cpus_and_those_of_lse_pods_are_left_alone(excluded: set[int], expected: set[int]) -> None:
    """An LSR pod is bound to 0 and 6, an LSE pod to 7, three CPUs are wanted."""
    lsr, shared = by_pool(ALONG, {0: "LSR", 6: "LSR", 7: "LSE"}, excluded)
    assert choose(3, lsr, shared) == expected
