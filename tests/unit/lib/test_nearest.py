import pytest

from koordpy.lib.nearest import nearest, suggestion

GATES = ["MultiQuotaTree", "PodMutatingWebhook", "PodValidatingWebhook", "ResizePod"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("MultiQuotaTrees", "MultiQuotaTree"),
        ("PodMutatingWebhok", "PodMutatingWebhook"),
        ("resizepod", "ResizePod"),
        ("Quota", "MultiQuotaTree"),
        ("Nope", None),
        ("Pod", None),
        ("", None),
    ],
)
def test_the_nearest_name_is_found_if_one_is_near(name: str, found: str | None) -> None:
    assert nearest(name, GATES) == found


def test_a_common_prefix_makes_no_name_near() -> None:
    handlers = ["mutate-pod.SetLabel", "mutate-pod.SetOwner"]
    assert nearest("mutate-pod.Nope", handlers) is None
    assert nearest("mutate-pod.SetLable", handlers) == "mutate-pod.SetLabel"
    assert nearest("SetLabel", handlers) == "mutate-pod.SetLabel"


def test_a_near_name_is_suggested_alone() -> None:
    assert suggestion("MultiQuotaTrees", GATES) == "did you mean MultiQuotaTree?"


def test_a_short_list_is_shown_where_no_name_is_near() -> None:
    assert suggestion("Nope", ["b", "a"]) == "expected one of a, b"
    assert suggestion("Nope", ["a"]) == "expected a"
    assert suggestion("Nope", []) == "there are none"


def test_a_long_list_is_not_shown() -> None:
    known = [f"name-{number:02}" for number in range(40)]
    assert suggestion("Nope", known) == "expected one of 40 other names"
    assert suggestion("Nope", known, "`koordpy version` lists them") == "`koordpy version` lists them"
