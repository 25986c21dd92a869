import json

import pytest

from koordpy.api import config_document
from koordpy.api.config_model import ConfigError

DOCUMENT = {"kind": "Thing", "a": 1}


def config_map(**data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})


@pytest.mark.parametrize("text", ["kind: Thing\na: 1", '{"kind":"Thing","a":1}'])
def test_a_document_is_found_bare_and_in_a_config_map(text: str) -> None:
    assert config_document.parse(text, "Thing") == DOCUMENT
    assert (
        config_document.parse(config_map(notes="a: b: c", other="kind: Other", it=text), "Thing") == DOCUMENT
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b: c", "not YAML"),
        ("- 1", "expected a Thing document, got list"),
        ("a: 1\na: 2", "line 2: field 'a' is given twice"),
        (config_map(x="kind: Other"), r"ConfigMap 'm': expected one Thing among its keys \(x\), found 0"),
        (config_map(x="kind: Thing", y="kind: Thing"), r"among its keys \(x, y\), found 2"),
        (config_map(x="kind: Thing\nb: c: d"), r"data\[x\]: not YAML"),
    ],
)
def test_what_is_no_document_of_the_kind_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_document.parse(text, "Thing")


def test_times_stay_texts() -> None:
    assert config_document.load("at: 2026-01-02") == {"at": "2026-01-02"}
