import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import label_selector
from koordpy.api.label_selector import EVERYTHING, NOTHING, SelectorError, fast_of, of, of_labels, parse
from koordpy.api.meta import LabelSelector, LabelSelectorRequirement

KEYS = st.sampled_from(["a", "b", "in", "notin", "app.kubernetes.io/name"])
VALUES = st.sampled_from(["", "1", "x", "in", "09", "a.b-c"])
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirement_texts(draw: st.DrawFn) -> str:
    key = draw(KEYS)
    values = ",".join(draw(st.lists(VALUES, min_size=1, max_size=3)))
    number = draw(st.integers(0, 99))
    value = draw(VALUES)
    forms = [key, f"!{key}", f"{key}={value}", f"{key}=={value}", f"{key} != {value}", f"{key}>{number}"]
    return draw(
        st.sampled_from([*forms, f"{key} in ({values})", f"{key}\tnotin ( {values} )", f"{key}<{number}"])
    )


@given(st.lists(requirement_texts(), max_size=4), LABELS)
def test_text_written_again_means_the_same(texts: list[str], labels: dict[str, str]) -> None:
    selector = parse(",".join(texts))
    again = parse(str(selector))
    assert str(again) == str(selector)
    assert again.matches(labels) == selector.matches(labels)


@given(LABELS, LABELS)
def test_a_map_of_labels_matches_its_supersets(wanted: dict[str, str], labels: dict[str, str]) -> None:
    assert of_labels(wanted).matches(labels) == (wanted.items() <= labels.items())
    assert of_labels(wanted).matches(wanted | labels | wanted)


@given(KEYS, st.lists(VALUES, min_size=1, max_size=3), LABELS)
def test_notin_is_the_opposite_of_in(key: str, values: list[str], labels: dict[str, str]) -> None:
    inside = LabelSelector(
        match_expressions=[LabelSelectorRequirement(key=key, operator="In", values=values)]
    )
    outside = LabelSelector(
        match_expressions=[LabelSelectorRequirement(key=key, operator="NotIn", values=values)]
    )
    assert of(inside).matches(labels) is not of(outside).matches(labels)


@given(st.text(alphabet="ab/.-=!(),<> \t\0inot1", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        selector = NOTHING
    assert selector is NOTHING or parse(str(selector)).requirements is not None


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": "1"}, True),
        ("a in ()", {"a": ""}, True),
        ("a in (x,,y)", {"a": ""}, True),
        ("a!=1", {}, True),
        ("a notin (1)", {}, True),
        ("in in (in)", {"in": "in"}, True),
        ("a>5", {"a": "+6"}, True),
        ("a>5", {"a": "x"}, False),
        ("a>5", {}, False),
        ("a<9", {"a": "08"}, True),
    ],
)
def test_selector_text(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse(text).matches(labels) is matches


@pytest.mark.parametrize(
    "text",
    [
        "a,",
        ",a",
        "a=b=c",
        "a in",
        "a in (",
        "a in (b",
        "a in (b c)",
        "a>x",
        "a>+3",
        "!a=b",
        "a b",
        "-a",
        "/a",
        "A/b",
        "a/b/c",
        "a=-5",
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not of(None).matches({})
    assert of(LabelSelector()).matches({"a": "b"})
    assert EVERYTHING.is_empty
    assert not NOTHING.is_empty


@pytest.mark.parametrize(
    ("operator", "values"),
    [("In", []), ("NotIn", []), ("Exists", [""]), ("DoesNotExist", ["x"]), ("Gt", ["1"])],
)
def test_a_struct_with_a_wrong_operator_or_number_of_values_is_refused(
    operator: str, values: list[str]
) -> None:
    expression = LabelSelectorRequirement(key="a", operator=operator, values=values)
    with pytest.raises(SelectorError):
        of(LabelSelector(match_expressions=[expression]))


def test_only_the_fast_form_leaves_match_labels_unchecked() -> None:
    odd = LabelSelector(match_labels={"a": "-5"})
    assert fast_of(odd).matches({"a": "-5"})
    with pytest.raises(SelectorError, match="-5"):
        of(odd)


def test_equal_structs_share_a_matcher() -> None:
    assert of(LabelSelector(match_labels={"a": "1"})) is of(LabelSelector(match_labels={"a": "1"}))


@pytest.mark.parametrize(
    ("text", "value"), [("a=1", "1"), ("a in (1)", "1"), ("a in (1,2)", None), ("b=1", None)]
)
def test_exact_value(text: str, value: str | None) -> None:
    assert label_selector.parse(text).exact_value("a") == value
