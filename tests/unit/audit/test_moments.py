"""What tests know of a cluster's every moment: neither more nor less than what was wrong at one."""

from tests.moments import Write, at_every_moment
from tests.unit.audit.books import held, node, pod, reservation, topology

POD = pod("a", cpuset="0-1")
RESERVATION = reservation("r", annotations=held("0-1"))


def found(*writes: Write) -> list[str]:
    moments = at_every_moment([node(), topology()], 3, writes)
    return [error.what for error in moments.found.values()]


def test_a_cpu_that_two_have_for_a_moment_is_found_whichever_watch_is_faster() -> None:
    writes: list[Write] = [(4, True, POD), (5, True, RESERVATION), (6, False, POD)]
    assert found(*writes) == found(*reversed(writes)) == ["CPU 0-1"]


def test_one_that_they_had_one_after_the_other_is_not() -> None:
    writes: list[Write] = [(4, True, POD), (6, True, RESERVATION), (5, False, POD)]
    assert found(*writes) == found(*reversed(writes)) == []


def test_what_the_lists_at_the_start_show_of_different_moments_is_not_found() -> None:
    writes: list[Write] = [(2, True, POD), (3, True, RESERVATION), (4, False, POD)]
    assert found(*writes) == []
