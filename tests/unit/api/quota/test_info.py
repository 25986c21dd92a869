"""The contents of an ElasticQuota."""

import pytest

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import parse
from koordpy.api.quota.info import ROOT, QuotaInfo, read_names
from koordpy.api.scheme import DecodeError, decode

PREFIX = "quota.scheduling.koordinator.sh/"


def info(name: str = "a", annotations: dict[str, str] | None = None, **labels: str) -> QuotaInfo:
    metadata = {
        "name": name,
        "labels": {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()},
        "annotations": {f"{PREFIX}{key}": value for key, value in (annotations or {}).items()},
    }
    spec = {"min": {"cpu": "1"}, "max": {"cpu": "2"}}
    return QuotaInfo.of(decode(ElasticQuota, {"metadata": metadata, "spec": spec}))


def test_without_labels_a_quota_is_a_leaf_below_the_root_that_lends() -> None:
    bare = info()
    assert (bare.name, bare.parent_name, bare.tree_id) == ("a", ROOT, "")
    assert bare.allow_lent_resource
    assert not any((bare.is_parent, bare.is_tree_root, bare.allow_force_update))
    assert (bare.min, bare.max) == ({"cpu": parse("1")}, {"cpu": parse("2")})
    assert (bare.guaranteed, bare.namespaces) == ({}, ())
    assert info(ROOT).parent_name == ""


def test_labels_say_what_a_quota_is() -> None:
    full = info(
        parent="b",
        tree_id="t",
        is_parent="true",
        is_root="true",
        allow_force_update="true",
        allow_lent_resource="false",
    )
    assert (full.parent_name, full.tree_id) == ("b", "t")
    assert full.is_parent
    assert full.is_tree_root
    assert full.allow_force_update
    assert not full.allow_lent_resource
    assert not info(is_parent="True").is_parent
    assert info(allow_lent_resource="no").allow_lent_resource


@pytest.mark.parametrize(
    ("text", "names"),
    [("null", ()), ("[]", ()), ('["a","b"]', ("a", "b")), ('["a",null]', ("a", ""))],
)
def test_names_are_a_json_list(text: str, names: tuple[str, ...]) -> None:
    assert read_names(text) == names
    assert info(annotations={"namespaces": text}).namespaces == names


@pytest.mark.parametrize("text", ["a", "{}", "[1]", '"a"'])
def test_a_malformed_list_binds_no_namespace(text: str) -> None:
    assert info(annotations={"namespaces": text}).namespaces == ()
    with pytest.raises(DecodeError, match=r"JSON|Expected"):
        read_names(text)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("", {}),
        ("null", {}),
        ("[", {}),
        ('{"cpu":"1","memory":2}', {"cpu": parse("1"), "memory": parse("2")}),
        ('{"cpu":"1","memory":"x","pods":"3"}', {"cpu": parse("1")}),
    ],
)
def test_guaranteed_are_the_amounts_before_the_first_bad_one(text: str, amounts: dict[str, object]) -> None:
    assert info(annotations={"guaranteed": text}).guaranteed == amounts
