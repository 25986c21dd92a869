from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import duration
from koordpy_plugins.descheduling.lownodeload.anomaly import Detector, DetectorCache
from koordpy_plugins.descheduling.lownodeload.args import Anomaly

ANOMALY = Anomaly(timeout=0, consecutive_abnormalities=2, consecutive_normalities=2)


def abnormal_detector(now: int = 0) -> Detector:
    detector = Detector(ANOMALY)
    for _ in range(3):
        detector.mark_abnormal(now)
    return detector


def test_a_node_is_abnormal_after_more_than_the_count() -> None:
    detector = Detector(ANOMALY)
    assert [detector.mark_abnormal(0) for _ in range(3)] == [False, False, True]
    assert (detector.normal_streak, detector.abnormal_streak) == (0, 0)


def test_a_normal_mark_starts_the_count_again() -> None:
    detector = Detector(ANOMALY)
    detector.mark_abnormal(0)
    detector.mark_abnormal(0)
    detector.mark_normal(0)
    assert not detector.mark_abnormal(0)


def test_a_node_is_normal_again_after_more_than_the_other_count() -> None:
    detector = abnormal_detector()
    for _ in range(2):
        detector.mark_normal(0)
    detector.mark_abnormal(0)
    for expected in (True, True, False):
        detector.mark_normal(0)
        assert detector.is_abnormal is expected


def test_an_anomaly_ends_after_a_minute_by_default() -> None:
    detector = abnormal_detector()
    assert detector.mark_abnormal(duration.MINUTE)
    assert not detector.mark_abnormal(duration.MINUTE + 1)


def test_a_reset_ends_an_anomaly_and_keeps_the_streak_of_a_normal_node() -> None:
    detector = abnormal_detector()
    detector.reset()
    assert not detector.mark_abnormal(0)
    detector.reset()
    assert detector.abnormal_streak == 1


class Time:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def test_a_detector_is_forgotten_when_it_is_not_used() -> None:
    time = Time()
    cache = DetectorCache(10, time)
    cache.detect("n", ANOMALY)
    cache.detect("n", ANOMALY)
    time.now = 10
    assert cache.detect("n", ANOMALY)
    time.now = 21
    assert not cache.detect("n", ANOMALY)
    time.now = 32
    cache.drop_expired()
    assert len(cache) == 0


def test_without_a_lifetime_a_detector_stays() -> None:
    time = Time()
    cache = DetectorCache(0, time)
    cache.detect("n", ANOMALY)
    cache.detect("n", ANOMALY)
    time.now = 1 << 60
    cache.drop_expired()
    assert cache.detect("n", ANOMALY)
    cache.reset("n")
    assert not cache.detect("n", ANOMALY)


def test_marks_of_unknown_nodes_make_no_detector() -> None:
    cache = DetectorCache(0, Time())
    cache.mark_normal("n")
    cache.reset("n")
    assert len(cache) == 0


@given(st.integers(1, 6), st.integers(1, 6), st.lists(st.booleans(), max_size=60))
def test_an_anomaly_needs_its_streak_of_bad_marks_and_ends_with_a_streak_of_good_ones(
    bad: int, good: int, marks: list[bool]
) -> None:
    detector = Detector(Anomaly(duration.HOUR, bad, good))
    abnormal, streak = False, 0
    for mark_bad in marks:
        streak = streak + 1 if mark_bad is not abnormal else 0
        if streak > (good if abnormal else bad):
            abnormal, streak = not abnormal, 0
        if mark_bad:
            detector.mark_abnormal(0)
        else:
            detector.mark_normal(0)
        assert detector.is_abnormal is abnormal
