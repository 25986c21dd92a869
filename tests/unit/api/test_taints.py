import pytest

from koordpy.api.core import Taint, Toleration
from koordpy.api.taints import find_untolerated, tolerates

TAINT = Taint(key="k", value="5", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(), False),
        (Toleration(operator="Exists"), True),
        (Toleration(value="5"), True),
        (Toleration(key="k", value="5"), True),
        (Toleration(key="k", operator="Equal", value="6"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="x", operator="Exists"), False),
        (Toleration(key="k", operator="Odd", value="5"), False),
        (Toleration(key="k", operator="Lt", value="6"), False),
    ],
)
def test_what_a_toleration_covers(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, TAINT) is covers


@pytest.mark.parametrize(
    ("operator", "value", "covers"),
    [
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "-1", True),
        ("Gt", "+4", False),
        ("Gt", "04", False),
        ("Gt", "x", False),
    ],
)
def test_numeric_tolerations_with_the_gate(operator: str, value: str, covers: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=value)
    assert tolerates(toleration, TAINT, comparison_operators=True) is covers


def test_preferences_do_not_repel() -> None:
    soft, hard = Taint(key="a", effect="PreferNoSchedule"), Taint(key="b", effect="NoExecute")
    assert find_untolerated([soft, hard, TAINT], []) is hard
    assert find_untolerated([soft], []) is None
    assert find_untolerated([soft], [], ("PreferNoSchedule",)) is soft
