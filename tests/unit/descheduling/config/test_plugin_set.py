import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.plugin_set import ALL
from koordpy.descheduling.config.plugin_set import PluginName, PluginSet, merge


def custom(enabled: list[str], disabled: list[str]) -> PluginSet:
    return PluginSet(
        enabled=[PluginName(name=name) for name in enabled],
        disabled=[PluginName(name=name) for name in disabled],
    )


@pytest.mark.parametrize(
    ("enabled", "disabled", "merged"),
    [
        ([], [], ["a", "b"]),
        (["c"], [], ["a", "b", "c"]),
        (["c"], ["a"], ["b", "c"]),
        (["c"], ["*"], ["c"]),
        ([], ["*"], []),
        (["c", "b"], [], ["a", "b", "c"]),
        (["a"], ["a"], ["b", "a"]),
        (["b", "b"], [], ["a", "b", "b"]),
        (["c", "c"], ["*", "c"], ["c", "c"]),
    ],
)
def test_custom_plugins_meet_the_defaults(enabled: list[str], disabled: list[str], merged: list[str]) -> None:
    assert merge(["a", "b"], custom(enabled, disabled)).names == merged


names = st.lists(st.sampled_from("abcd"), max_size=5)


@given(names, names)
def test_everything_enabled_survives_and_nothing_is_disabled_any_more(
    enabled: list[str], disabled: list[str]
) -> None:
    merged = merge(["a", "b"], custom(enabled, disabled))
    assert merged.disabled == []
    assert all(merged.names.count(name) >= enabled.count(name) for name in enabled)
    assert merge(["a", "b"], custom(enabled, [*disabled, ALL])).names == enabled
