"""The catalog and the shapes of built-in kinds."""

import pytest

from koordpy.embedded.apiserver import catalog
from koordpy.embedded.apiserver.errors import ApiError
from koordpy.embedded.apiserver.kinds import shapes


def test_versions_are_ordered_by_stability_then_number() -> None:
    versions = ["v1alpha1", "v2", "foo", "v1beta1", "v1", "v1beta2", "v10"]
    expected = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
    assert sorted(versions, key=catalog.version_order) == expected


def test_resource_that_is_taken_away_is_not_found() -> None:
    one = catalog.Catalog()
    one.add(catalog.Served("g", "v1", "things", "Thing", True))
    assert one.groups() == {"g": ["v1"]}
    one.remove("g", "v1", "things")
    assert (one.find("g", "v1", "things"), one.groups()) == (None, {})


def test_short_names_of_a_group_differ() -> None:
    names = [
        (served.group, served.version, name) for served in catalog.built_in() for name in served.short_names
    ]
    assert len(names) == len(set(names))


def test_unknown_fields_are_dropped_with_their_path() -> None:
    shape, unknown = shapes.shape_of("Pod"), list[str]()
    assert shape is not None
    document = {"spec": {"containers": [{"name": "a", "colour": 1}], "nodeName": None}, "x": 1}
    assert shapes.tidy(document, shape, "", unknown) == {"spec": {"containers": [{"name": "a"}]}}
    assert unknown == ["spec.containers[0].colour", "x"]


def test_list_where_an_object_belongs_is_refused() -> None:
    shape = shapes.shape_of("Pod")
    assert shape is not None
    with pytest.raises(ApiError, match=r"cannot unmarshal array .* spec"):
        shapes.tidy({"spec": []}, shape, "", [])
