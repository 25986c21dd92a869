import pytest

from koordpy.lib.last_answer import LastAnswer


def test_equal_queries_in_a_row_are_answered_once():
    asked = []

    def answer(number):
        asked.append(number)
        return -number

    last = LastAnswer(answer, lambda old, new: old == new)
    assert [last.of(number) for number in (1, 1, 2, 1, 1)] == [-1, -1, -2, -1, -1]
    assert asked == [1, 2, 1]


def test_errors_are_not_cached():
    last: LastAnswer[int, int] = LastAnswer(lambda number: 1 // number, lambda old, new: old == new)
    assert last.of(1) == 1
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            last.of(0)
    assert last.of(1) == 1
