"""metadata: generated names, validation, and what an update carries over."""

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.apiserver import metadata as meta
from koordpy.embedded.apiserver.errors import ApiError


@given(st.from_regex(r"[a-z][a-z0-9-]{0,80}", fullmatch=True), st.integers())
def test_generated_name_is_a_short_dns_name(prefix: str, seed: int) -> None:
    name = meta.generated_name(prefix, random.Random(seed))
    assert len(name) <= 63
    assert re.fullmatch(r"[a-z0-9-]*[a-z0-9]{5}", name)


def test_tidy_drops_nulls_empties_and_unknown_fields() -> None:
    unknown: list[str] = []
    given_: dict[str, Any] = {
        "name": "a",
        "labels": {"x": None},
        "annotations": None,
        "finalizers": [],
        "colour": "red",
    }
    assert meta.tidy("Pod", "v1", given_, unknown) == {"name": "a", "labels": {"x": ""}}
    assert unknown == ["metadata.colour"]


@pytest.mark.parametrize("bad", [{"name": 5}, {"labels": {"a": 1}}, {"labels": []}, {"finalizers": "x"}, []])
def test_tidy_refuses_wrong_types(bad: object) -> None:
    with pytest.raises(ApiError, match="cannot be handled as a Pod"):
        meta.tidy("Pod", "v1", bad, [])


def test_finalizers_cannot_be_added_to_what_is_being_deleted() -> None:
    old = {"name": "a", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    causes = list(meta.validate_update({**old, "finalizers": ["a/b", "c/d"]}, old))
    assert [cause.field for cause in causes] == ["metadata.finalizers"]


def test_update_cannot_move_what_the_server_sets() -> None:
    old = {"uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 4}
    new = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9, "deletionTimestamp": "x"}
    meta.carry_over(new, old)
    assert new == old


def test_namespace_is_that_of_the_url() -> None:
    metadata: dict[str, str] = {}
    meta.match_namespace(metadata, "team")
    assert metadata == {"namespace": "team"}
    with pytest.raises(ApiError, match="does not match"):
        meta.match_namespace(metadata, "other")
