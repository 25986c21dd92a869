import pytest

from koordpy.api.config_model import ConfigError
from koordpy.controllers.selection import check, is_selected


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        (["*"], True),
        ([], False),
        (["nodeslo"], True),
        (["-nodeslo"], False),
        (["*", "-nodeslo"], False),
        (["-nodeslo", "*"], False),
        (["nodeslo", "-nodeslo"], True),
        (["-nodeslo", "nodeslo"], False),
        (["noderesource"], False),
        (["noderesource", "*"], True),
    ],
)
def test_the_first_mention_decides_and_else_a_star(selection: list[str], selected: bool) -> None:
    assert is_selected("nodeslo", selection) is selected


def test_only_koordinators_names_may_be_named_besides_installed_ones() -> None:
    assert check(["*", "a", "-b", "-nodeslo", "nodemetric"], ["a", "b"]) == ["nodemetric"]
    with pytest.raises(ConfigError, match=r"got '-typo', expected \*, NAME or -NAME of a controller; .* a, "):
        check(["-typo"], ["a"])
    with pytest.raises(ConfigError, match=r"got 'nodeslos', .*; did you mean nodeslo\?$"):
        check(["nodeslos"], ["a"])
