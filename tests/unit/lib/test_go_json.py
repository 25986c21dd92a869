import pytest

from koordpy.lib import go_json


def test_names_match_in_any_case_and_the_last_value_counts():
    assert go_json.members(go_json.parse('{"CPUSet": "1", "cpuset": "2", "x": null}'), "v")["cpuset"] == "2"


def test_null_does_not_replace_a_value():
    assert go_json.members(go_json.parse('{"a": 1, "A": null}'), "v") == {"a": 1}


def test_null_is_the_zero_value():
    assert go_json.integer(None, "v") == 0
    assert go_json.text(None, "v") == ""
    assert go_json.array(None, "v") is None
    assert go_json.mapping(None, "v") is None
    assert go_json.boolean(None, "v") is None


@pytest.mark.parametrize("text", ["1.0", "1e2", '"1"', "true", "2147483648"])
def test_what_is_no_integer(text):
    with pytest.raises(ValueError, match="v: expected an integer of 32 bits"):
        go_json.integer(go_json.parse(text), "v", 32)


@pytest.mark.parametrize("text", ["1.5", "1", "true", "[]"])
def test_what_is_no_text(text):
    with pytest.raises(ValueError, match="v: expected a string"):
        go_json.text(go_json.parse(text), "v")


@pytest.mark.parametrize("text", ["", "{", "{} {}", '{"a": NaN}'])
def test_what_is_no_json(text):
    with pytest.raises(ValueError, match="not JSON"):
        go_json.parse(text)
