import json

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib.text_documents import DocumentError, Limits, read_all_yaml, read_json, read_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def bomb(first: str, line: str) -> str:
    """YAML in which each anchor stands for nine of the one before."""
    texts = [f"a: &a {first}"]
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True):
        texts.append(f"{name}: &{name} {line.format(', '.join([f'*{before}'] * 9))}")
    return "\n".join(texts)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "{a: " * 60_000,
        "- " * 30_000,
        "\n".join(" " * depth + "a:" for depth in range(400)),
        "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60,
    ],
)
def test_deeply_nested_yaml_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=r"line \d+, column \d+: nested more than 100 levels deep"):
        read_yaml(text)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [101, 900, 500_000])
def test_deeply_nested_json_is_refused(opening: str, depth: int) -> None:
    closing = "]" if opening == "[" else "}"
    with pytest.raises(DocumentError, match="nested more than 100 levels deep"):
        read_json((opening * depth + "1" + closing * depth).encode())


def test_a_hundred_levels_are_read() -> None:
    text = "[" * 100 + "]" * 100
    assert read_json(text) == read_yaml(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        bomb("[x, x, x, x, x, x, x, x, x]", "[{}]"),
        bomb("{x: 1}", "{{<<: [{}]}}"),
        "a: &a " + "x" * 30_000 + "\nb: [" + ", ".join(["*a"] * 5_000) + "]",
    ],
    ids=["lists", "merges", "text"],
)
def test_aliases_that_expand_are_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=r"line \d+, column \d+: aliases add more than 262144 values"):
        read_yaml(text)


def test_a_few_aliases_are_copies() -> None:
    found = read_yaml("a: &a {x: [1]}\nb: *a\nc: {<<: *a, y: 2}\nd: {<<: [{x: 3}, *a]}")
    assert found == {"a": {"x": [1]}, "b": {"x": [1]}, "c": {"x": [1], "y": 2}, "d": {"x": 3}}
    found["a"]["x"].append(2)
    assert found["b"] == {"x": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: &b [*b]", r"line 2, column 8: alias \*b is part of its own anchor &b"),
        ("a: *b", r"line 1, column 4: alias \*b of an anchor that is not defined"),
        ("a: [1\nb: }", r"line 2, column 2: did not find expected"),
        ("a: 1\n---\nb: 1", r"line 2, column 1: a second document"),
        ("{null: 1}", r"column 2: a key that is null, expected text"),
        ("? [a]\n: 1", r"column 3: a key that is a list or an object, expected text"),
        ("a: !!binary aGk=", r"column 4: tag .*binary', expected a type that JSON has"),
        ("a: !!set {x}", r"column 4: tag .*set', expected a type that JSON has"),
        ("a: !!int x", r"column 4: 'x', expected int by its tag"),
        ("a: .nan", r"column 4: .nan, which JSON does not have"),
        ("a: {<<: 3}", r"column 9: <<: got 3, expected an object"),
        ("%TAG !a! b\n" * 100, "more than 16 %TAG directives"),
        (b"a: \xff", r"not text in UTF-8: invalid start byte \(byte 3\)"),
        ("a: \x01", "control characters are not allowed"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(text: str | bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        read_yaml(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":\n 1,}', "line 2, column 4: JSON is malformed"),
        (b"\xff", "line 1, column 1: JSON is malformed"),
        ("", "truncated"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str | bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        read_json(text)


def test_a_text_beyond_the_size_is_refused_unread() -> None:
    for read in (read_json, read_yaml, read_all_yaml):
        with pytest.raises(DocumentError, match="larger than 10 bytes"):
            read(b"12345678901", Limits(size=10))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("", None),
        ("0x1F", 31),
        ("0644", 420),
        ("08", "08"),
        ("1_000", 1000),
        ("-0", 0),
        ("18446744073709551616", 18446744073709551616.0),
        ("1" * 60_000, "1" * 60_000),
        ("1.5e+3", 1500.0),
        ("1" * 400 + ".0", "1" * 400 + ".0"),
        ("12:30:45", "12:30:45"),
        ("2026-01-02", "2026-01-02"),
        ("=", "="),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ('!!int "3"', 3),
        ("!!float 3", 3.0),
        ("'1'", "1"),
        ("<<", "<<"),
        ("{1: a, true: b}", {"1": "a", "true": "b"}),
    ],
)
def test_scalars_have_the_types_of_json(text: str, value: object) -> None:
    found = read_yaml(text)
    assert found == value
    assert type(found) is type(value)


def test_a_repeated_key_counts_last_or_is_an_error() -> None:
    assert read_yaml("a: 1\na: 2") == {"a": 2}
    with pytest.raises(DocumentError, match="line 2: field 'a' is given twice"):
        read_yaml("a: 1\na: 2", unique_keys=True)


def test_all_documents_are_read() -> None:
    assert read_all_yaml("---\na: 1\n---\n# nothing\n---\n- 2\n") == [{"a": 1}, None, [2]]


@given(JSON)
def test_documents_survive_both_formats(document: object) -> None:
    assert read_json(msgspec.json.encode(document)) == document
    text = yaml.safe_dump(document, allow_unicode=True)
    assert msgspec.json.encode(read_yaml(text)) == msgspec.json.encode(yaml.safe_load(text))
