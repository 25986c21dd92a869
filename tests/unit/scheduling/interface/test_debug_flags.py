"""Values and answers of `/debug/flags`."""

import pytest

from koordpy.scheduling.interface.debug_flags import BadFlag, DebugFlags


@pytest.mark.parametrize(
    ("flag", "value", "answer"),
    [
        ("s", "10", "successfully set debugTopNScores to 10"),
        ("s", "-1", "successfully set debugTopNScores to -1"),
        ("s", "+3", "successfully set debugTopNScores to +3"),
        ("f", "true", "successfully set debugFilterFailure to true"),
        ("f", "0", "successfully set debugFilterFailure to 0"),
        ("d", "T", "successfully set debugFilterFailure to T"),
        ("db", "False", "successfully set debugFilterFailure to False"),
        ("v", "4", "successfully set klog.logging.verbosity to 4"),
    ],
)
def test_values_that_go_programs_take_are_set(flag: str, value: str, answer: str) -> None:
    assert DebugFlags().setters()[flag](value) == answer


@pytest.mark.parametrize(
    ("flag", "value", "answer"),
    [
        (
            "s",
            "11.22",
            'failed set debugTopNScores 11.22: strconv.Atoi: parsing "11.22": invalid syntax',
        ),
        ("s", "", 'failed set debugTopNScores : strconv.Atoi: parsing "": invalid syntax'),
        ("s", "٣", 'failed set debugTopNScores ٣: strconv.Atoi: parsing "٣": invalid syntax'),
        (
            "s",
            "9223372036854775808",
            "failed set debugTopNScores 9223372036854775808: strconv.Atoi: parsing "
            '"9223372036854775808": value out of range',
        ),
        (
            "v",
            "2147483648",
            "failed set klog.logging.verbosity 2147483648: strconv.ParseInt: parsing "
            '"2147483648": value out of range',
        ),
        ("f", "yes", 'failed set debugFilterFailure yes: strconv.ParseBool: parsing "yes": invalid syntax'),
        ("d", "", 'failed set debugFilterFailure : strconv.ParseBool: parsing "": invalid syntax'),
        ("db", "2", 'failed set debugFilterFailure 2: strconv.ParseBool: parsing "2": invalid syntax'),
    ],
)
def test_other_values_are_rejected_with_gos_messages_and_change_nothing(
    flag: str, value: str, answer: str
) -> None:
    flags = DebugFlags(top_scores=7)
    with pytest.raises(BadFlag) as refusal:
        flags.setters()[flag](value)
    assert str(refusal.value) == answer
    assert flags == DebugFlags(top_scores=7, set_verbosity=flags.set_verbosity)


def test_each_flag_changes_only_its_setting() -> None:
    levels: list[int] = []
    flags = DebugFlags(set_verbosity=levels.append)
    for flag, value in (("s", "5"), ("f", "true"), ("d", "true"), ("db", "true"), ("v", "2")):
        flags.setters()[flag](value)
    assert (flags.top_scores, flags.filter_failures, flags.diagnosis, flags.diagnosis_blocking) == (
        5,
        True,
        True,
        True,
    )
    assert levels == [2]
