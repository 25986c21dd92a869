from koordpy.cluster.informer import GATHERING, _Pace


def brisk(*readings: tuple[float, int]) -> list[bool]:
    """Ask after each reading, given as seconds since the one before and number of events."""
    now = 0.0
    pace = _Pace(lambda: now)
    answers = []
    for seconds, events in readings:
        now += seconds
        answers.append(pace.is_brisk(events))
    return answers


def test_a_few_events_are_not_held_up() -> None:
    assert brisk((1, 1), (0.001, 1), (0.001, 1), (1, 1), (0.001, 1), (0.001, 1)) == [False] * 6


def test_events_that_keep_coming_are_gathered_until_they_stop() -> None:
    fast = GATHERING / 5
    assert brisk((1, 1), (fast, 1), (fast, 1), (fast, 1)) == [False, False, False, True]
    gathered = (1.1 * GATHERING, 5)
    assert brisk(*[(fast, 1)] * 3, gathered, gathered, (GATHERING, 1), (1, 1)) == [
        False, False, True, True, True, False, False,
    ]  # fmt: skip


def test_a_server_that_is_ahead_is_not_made_to_wait() -> None:
    assert brisk(*[(0.001, 50)] * 10) == [False] * 10
