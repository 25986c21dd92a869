import pytest

from koordpy.lib.selection import is_selected


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        (["*"], True),
        ([], False),
        (["X"], True),
        (["-X"], False),
        (["*", "-X"], False),
        (["-X", "*"], False),
        (["X", "-X"], True),
        (["Y", "*"], True),
        (["Y"], False),
    ],
)
def test_what_a_list_selects(selection: list[str], selected: bool) -> None:
    assert is_selected("X", selection) is selected
