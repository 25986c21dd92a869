import pytest

from koordpy.api import extension
from koordpy.api.amplification import amplify, amplify_list, node_ratios
from koordpy.api.quantity import parse
from koordpy.lib import int64


@pytest.mark.parametrize(
    ("amount", "ratio", "expected"),
    [
        (1000, 1.5, 1500),
        (1000, 1.0, 1000),
        (1000, 0.5, 1000),
        (1000, -2.0, 1000),
        (3, 1.1, 4),
        (10, 1.1, 11),
        (100, 1.1, 111),  # 110.00000000000001 in doubles
        (-1000, 1.0005, -1000),
        (1 << 62, 4.0, int64.MIN),
        (0, 1e300, 0),
    ],
)
def test_amounts_are_multiplied_as_doubles_and_rounded_up(amount, ratio, expected):
    assert amplify(amount, ratio) == expected


def test_lists_are_amplified_in_the_units_and_formats_of_their_resources():
    texts = {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "1k", "x/y": "3", "zero": "0"}
    amounts = {name: parse(text) for name, text in texts.items()}
    more = amplify_list(amounts, dict.fromkeys(amounts, 1.5))
    assert {name: str(amount) for name, amount in more.items()} == {
        "cpu": "2250m",
        "memory": "1536Mi",
        "ephemeral-storage": "1500",
        "x/y": "5",
        "zero": "0",
    }
    assert amplify_list(amounts, None) == amounts


@pytest.mark.parametrize(
    ("text", "ratios"),
    [("null", None), ("{}", {}), ('{"cpu":1.5,"x":2,"y":null}', {"cpu": 1.5, "x": 2.0, "y": 0.0})],
)
def test_ratios_are_read_as_json(text, ratios):
    assert node_ratios({extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: text}) == ratios
    assert node_ratios({}) is None


@pytest.mark.parametrize("text", ["", "[]", '{"cpu":"1.5"}', '{"cpu":true}', '{"cpu":1e999}', '{"cpu":{}}'])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"^failed to unmarshal node resource amplification ratio: "):
        node_ratios({extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: text})
