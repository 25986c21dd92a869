from dataclasses import dataclass

import pytest

from koordpy.api.plugin_set import merge


@dataclass(frozen=True)
class Entry:
    name: str
    weight: int = 0


def entries(text: str) -> list[Entry]:
    """Read `a b=2`: names with weights."""
    parts = (part.partition("=") for part in text.split())
    return [Entry(name, int(weight or 0)) for name, _, weight in parts]


@pytest.mark.parametrize(
    ("defaults", "enabled", "disabled", "expected"),
    [
        ("a b", "", "", "a b"),
        ("a b", "c", "", "a b c"),
        ("a b", "", "a", "b"),
        ("a b", "c", "*", "c"),
        ("a b", "b=2", "", "a b=2"),
        ("a b", "c b=2", "", "a b=2 c"),
        ("a b", "b=2", "b", "a b=2"),
        ("a b", "b=2 a=1", "*", "b=2 a=1"),
        ("a", "a=1 a=2", "", "a=2 a=1"),
        ("a", "c c", "", "a c c"),
        ("a", "c", "c", "a c"),
    ],
)
def test_defaults_and_a_configuration_are_merged(
    defaults: str, enabled: str, disabled: str, expected: str
) -> None:
    assert merge(entries(defaults), entries(enabled), disabled.split()) == entries(expected)
