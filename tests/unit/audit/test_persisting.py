"""Which findings are told, and when."""

from koordpy.audit.finding import Finding
from koordpy.audit.persisting import Persisting
from tests.unit.audit.books import findings, node, pod, quota


def over(cpu: str) -> list[Finding]:
    return findings(node(), pod("a", requests={"cpu": cpu}))


def test_what_lasts_is_told_once() -> None:
    persisting = Persisting(3.0)
    assert persisting.of(over("17"), 10.0) == []
    assert persisting.of(over("18"), 12.9) == []  # another amount of the same error
    assert [found.held for found in persisting.of(over("19"), 13.0)] == ["19"]
    assert persisting.of(over("19"), 20.0) == []


def test_what_goes_in_time_is_never_told_and_what_comes_back_is_told_again() -> None:
    persisting = Persisting(3.0)
    for now, cpu, told in (
        (0.0, "17", 0),
        (2.0, "16", 0),
        (4.0, "17", 0),
        (6.0, "17", 0),
        (7.0, "17", 1),
        (8.0, "16", 0),
        (9.0, "17", 0),
        (12.0, "17", 1),
    ):
        assert len(persisting.of(over(cpu), now)) == told, now


def test_without_a_time_everything_is_told_at_once() -> None:
    assert len(Persisting(0.0).of(over("17"), 5.0)) == 1


def test_a_status_that_follows_does_not_last() -> None:
    persisting = Persisting(3.0)
    for number in range(1, 10):
        late = findings(node(), quota("q", used={"cpu": str(number)}))
        assert len(late) == 1
        assert persisting.of(late, float(number)) == []
