"""The JSON paths of printer columns."""

from typing import Any

import pytest

from koordpy.embedded.apiserver.representation.jsonpath import JSONPathError, find

DOCUMENT = {
    "metadata": {"labels": {"a.b/c": "x"}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Late", "status": "False"}],
        "counts": [1, 2],
    },
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".status.counts", [[1, 2]]),
        ("{.status.counts[0]}", [1]),
        (".status.counts[-1]", [2]),
        (".status.counts[*]", [1, 2]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (r".metadata.labels.a\.b/c", ["x"]),
        (".metadata.labels['a.b/c']", ["x"]),
        (".status.missing.further", []),
        (".status.counts[5]", []),
    ],
)
def test_path_leads_to_its_values(path: str, values: list[Any]) -> None:
    assert find(DOCUMENT, path) == values


@pytest.mark.parametrize("path", ["status", ".status[", ".a[?(@.b>1)]"])
def test_path_that_cannot_be_read_is_an_error(path: str) -> None:
    with pytest.raises(JSONPathError):
        find(DOCUMENT, path)
