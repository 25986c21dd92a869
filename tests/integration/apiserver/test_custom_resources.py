"""CustomResourceDefinitions: objects that the server learns to serve, default, prune and validate."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.eventually import eventually
from tests.integration.apiserver.custom_resources import (
    GROUP,
    GROUP_VERSION,
    define,
    definition,
    gadget,
    shipped,
    widget,
)
from tests.integration.apiserver.rest import (
    JSON_PATCH,
    STRATEGIC,
    Collection,
    Document,
    Rest,
    causes,
    names,
    ok,
    refused,
)


def test_accepted_definition_is_established_with_its_names(rest: Rest, widgets: Collection) -> None:
    found = ok(rest.collection("customresourcedefinitions").get(f"widgets.{GROUP}"))
    conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
    assert (conditions["NamesAccepted"], conditions["Established"]) == ("True", "True")
    assert found["status"]["acceptedNames"]["kind"] == "Widget"
    assert found["status"]["storedVersions"] == ["v1"]


def test_defined_resource_is_discovered(rest: Rest, widgets: Collection) -> None:
    found = {r["name"]: r for r in ok(rest.get(f"/apis/{GROUP_VERSION}"))["resources"]}
    assert (found["widgets"]["kind"], found["widgets"]["namespaced"]) == ("Widget", True)
    assert found["widgets"]["shortNames"] == ["wd"]
    assert "widgets/status" in found
    assert found["gadgets"]["namespaced"] is False
    assert "gadgets/status" not in found


def test_object_is_created_read_listed_and_deleted(widgets: Collection) -> None:
    created = ok(widgets.create(widget("a")), 201)
    assert (created["apiVersion"], created["kind"]) == (GROUP_VERSION, "Widget")
    assert ok(widgets.get("a")) == created
    listed = ok(widgets.list())
    assert (listed["kind"], names(listed)) == ("WidgetList", ["a"])
    ok(widgets.delete("a"), 200)
    status = refused(widgets.get("a"), 404, "NotFound")
    assert status["message"] == f'widgets.{GROUP} "a" not found'


def test_items_of_a_list_carry_kind_and_version(widgets: Collection) -> None:
    ok(widgets.create(widget("a")), 201)
    (item,) = ok(widgets.list())["items"]
    assert (item["apiVersion"], item["kind"]) == (GROUP_VERSION, "Widget")


def test_kind_and_version_are_required(widgets: Collection) -> None:
    document = widget("a")
    del document["kind"], document["apiVersion"]
    refused(widgets.create(document), 400, "BadRequest")


def test_defaults_are_filled_in(widgets: Collection) -> None:
    created = ok(widgets.create(widget("a", parts=[{"name": "x"}])), 201)
    assert created["spec"] == {
        "size": 1,
        "colour": "red",
        "nested": {"depth": 3},
        "parts": [{"name": "x", "count": 1}],
    }


def test_defaults_replace_null_where_null_is_not_allowed(widgets: Collection) -> None:
    created = ok(widgets.create(widget("a", colour=None, note=None)), 201)
    assert created["spec"]["colour"] == "red"
    assert created["spec"]["note"] is None


def test_unknown_fields_are_pruned_unless_the_schema_keeps_them(widgets: Collection) -> None:
    document = widget("a", unknown=1, nested={"unknown": 1, "width": 2}, raw={"anything": [{"goes": 1}]})
    created = ok(widgets.create(document | {"extra": 1}), 201)
    assert "extra" not in created
    assert "unknown" not in created["spec"]
    assert created["spec"]["nested"] == {"depth": 3, "width": 2}
    assert created["spec"]["raw"] == {"anything": [{"goes": 1}]}


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"size": 0}, "spec.size", "FieldValueInvalid"),
        ({"size": 11}, "spec.size", "FieldValueInvalid"),
        ({"size": "big"}, "spec.size", "FieldValueTypeInvalid"),
        ({"size": 1.5}, "spec.size", "FieldValueTypeInvalid"),
        ({"size": None}, "spec.size", "FieldValueRequired"),
        ({"colour": "green"}, "spec.colour", "FieldValueNotSupported"),
        ({"code": "ABC"}, "spec.code", "FieldValueInvalid"),
        ({"code": "abcdef"}, "spec.code", "FieldValueTooLong"),
        ({"tags": ["a", "b", "c", "d"]}, "spec.tags", "FieldValueTooMany"),
        ({"tags": ["a", 1]}, "spec.tags[1]", "FieldValueTypeInvalid"),
        ({"parts": [{"name": "a"}, {"count": 2}]}, "spec.parts[1].name", "FieldValueRequired"),
        ({"nested": []}, "spec.nested", "FieldValueTypeInvalid"),
        ({"amount": True}, "spec.amount", "FieldValueTypeInvalid"),
        ({"amounts": {"cpu": True}}, "spec.amounts.cpu", "FieldValueTypeInvalid"),
        ({"since": "yesterday"}, "spec.since", "FieldValueTypeInvalid"),
    ],
)
def test_invalid_value_is_refused_with_its_field(
    widgets: Collection, spec: dict[str, Any], field: str, reason: str
) -> None:
    status = refused(widgets.create(widget("a", **spec)), 422, "Invalid")
    assert causes(status)[field] == reason
    assert (status["details"]["group"], status["details"]["kind"]) == (GROUP, "Widget")
    refused(widgets.get("a"), 404, "NotFound")


def test_missing_required_field_is_refused(widgets: Collection) -> None:
    document = widget("a")
    del document["spec"]["size"]
    assert causes(refused(widgets.create(document), 422, "Invalid")) == {"spec.size": "FieldValueRequired"}


def test_every_invalid_field_is_named(widgets: Collection) -> None:
    found = causes(refused(widgets.create(widget("a", size=0, colour="green", code="ABC")), 422, "Invalid"))
    assert set(found) == {"spec.size", "spec.colour", "spec.code"}


@pytest.mark.parametrize("value", [1, "1500m"])
def test_amount_may_be_number_or_text(widgets: Collection, value: Any) -> None:
    created = ok(widgets.create(widget("a", amount=value, amounts={"cpu": value})), 201)
    assert (created["spec"]["amount"], created["spec"]["amounts"]) == (value, {"cpu": value})


def test_update_and_patch_are_validated(widgets: Collection) -> None:
    created = ok(widgets.create(widget("a")), 201)
    refused(widgets.replace(created | {"spec": {"size": 0}}), 422, "Invalid")
    refused(widgets.patch("a", {"spec": {"size": 0}}), 422, "Invalid")
    assert ok(widgets.get("a")) == created


def test_update_needs_a_version(widgets: Collection) -> None:
    ok(widgets.create(widget("a")), 201)
    assert causes(refused(widgets.replace(widget("a", size=2)), 422, "Invalid")) == {
        "metadata.resourceVersion": "FieldValueInvalid"
    }


def test_stale_version_is_a_conflict(widgets: Collection) -> None:
    created = ok(widgets.create(widget("a")), 201)
    ok(widgets.replace(created | {"spec": {"size": 2}}), 200)
    refused(widgets.replace(created | {"spec": {"size": 3}}), 409, "Conflict")


def test_merge_and_json_patches_are_understood_strategic_ones_are_not(widgets: Collection) -> None:
    ok(widgets.create(widget("a")), 201)
    assert ok(widgets.patch("a", {"spec": {"size": 2}}))["spec"]["size"] == 2
    operation = {"op": "replace", "path": "/spec/size", "value": 3}
    assert ok(widgets.patch("a", [operation], JSON_PATCH))["spec"]["size"] == 3
    refused(widgets.patch("a", {"spec": {"size": 4}}, STRATEGIC), 415, "UnsupportedMediaType")


def test_status_is_written_through_its_subresource_only(widgets: Collection) -> None:
    created = ok(widgets.create(widget("a") | {"status": {"phase": "Early"}}), 201)
    assert "status" not in created
    main = ok(widgets.patch("a", {"spec": {"size": 2}, "status": {"phase": "Main"}}))
    assert (main["spec"]["size"], "status" in main) == (2, False)
    patch = {"spec": {"size": 9}, "status": {"phase": "Ready", "unknown": 1}}
    written = ok(widgets.patch("a", patch, sub="status"))
    assert (written["spec"]["size"], written["status"]) == (2, {"phase": "Ready"})
    replaced = ok(widgets.replace(written | {"status": {"phase": "Done"}}, sub="status"), 200)
    assert replaced["status"] == {"phase": "Done"}
    assert ok(widgets.get("a", sub="status")) == replaced


def test_generation_counts_changes_outside_metadata_and_status(widgets: Collection) -> None:
    assert ok(widgets.create(widget("a")), 201)["metadata"]["generation"] == 1
    assert ok(widgets.patch("a", {"spec": {"size": 2}}))["metadata"]["generation"] == 2
    assert ok(widgets.patch("a", {"metadata": {"labels": {"a": "b"}}}))["metadata"]["generation"] == 2
    status = {"status": {"phase": "Ready"}}
    assert ok(widgets.patch("a", status, sub="status"))["metadata"]["generation"] == 2


def test_without_the_subresource_status_is_a_field_like_others(
    gadgets: Collection, unique: Callable[[str], str]
) -> None:
    name = unique("gadget")
    created = ok(gadgets.create(gadget(name, status={"phase": "Early"})), 201)
    assert created["status"] == {"phase": "Early"}
    assert "namespace" not in created["metadata"]
    patched = ok(gadgets.patch(name, {"status": {"phase": "Late"}}))
    assert (patched["status"], patched["metadata"]["generation"]) == ({"phase": "Late"}, 2)
    assert gadgets.get(name, sub="status").status_code == 404


def test_object_of_the_cluster_is_not_served_in_a_namespace(rest: Rest, gadgets: Collection) -> None:
    assert rest.collection("gadgets", "default", GROUP_VERSION).list().status_code == 404


def test_custom_resources_are_watched_and_selected(widgets: Collection) -> None:
    start = ok(widgets.list())["metadata"]["resourceVersion"]
    with widgets.watch(resourceVersion=start, labelSelector="tier=web") as watch:
        ok(widgets.create(widget("a")), 201)
        document = widget("b")
        document["metadata"]["labels"] = {"tier": "web"}
        ok(widgets.create(document), 201)
        assert watch.take(1) == [("ADDED", "b")]
    assert names(ok(widgets.list(fieldSelector="metadata.name=a"))) == ["a"]
    refused(widgets.list(fieldSelector="spec.size=1"), 400, "BadRequest")


def test_finalizers_keep_a_deleted_object(widgets: Collection) -> None:
    document = widget("a")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    ok(widgets.create(document), 201)
    assert ok(widgets.delete("a"), 200)["metadata"]["deletionTimestamp"]
    ok(widgets.patch("a", {"metadata": {"finalizers": None}}))
    refused(widgets.get("a"), 404, "NotFound")


def test_deleted_definition_takes_its_objects_with_it(rest: Rest, unique: Callable[[str], str]) -> None:
    plural = unique("things").replace("-", "")
    thing = definition(plural, plural.capitalize(), "Cluster", {"type": "object"})
    define(rest, thing)
    things = rest.collection(plural, "", GROUP_VERSION)
    document = {"apiVersion": GROUP_VERSION, "kind": plural.capitalize(), "metadata": {"name": "a"}}
    ok(things.create(document), 201)
    definitions = rest.collection("customresourcedefinitions")
    with definitions.watch(fieldSelector=f"metadata.name={plural}.{GROUP}") as watch:
        ok(definitions.delete(f"{plural}.{GROUP}"), 200)
        while watch.next()["type"] != "DELETED":
            pass
    assert eventually(lambda: things.list().status_code == 404)


def test_definition_needs_a_structural_schema(rest: Rest) -> None:
    bad = definition("bads", "Bad", "Cluster", {"type": "object", "properties": {"spec": {"default": 1}}})
    refused(rest.collection("customresourcedefinitions").create(bad), 422, "Invalid")


def test_definition_is_named_after_plural_and_group(rest: Rest) -> None:
    bad = definition("bads", "Bad", "Cluster", {"type": "object"})
    bad["metadata"]["name"] = "goods.example.com"
    found = causes(refused(rest.collection("customresourcedefinitions").create(bad), 422, "Invalid"))
    assert "metadata.name" in found


@pytest.mark.parametrize("document", list(shipped()), ids=lambda document: document["metadata"]["name"])
def test_shipped_definition_is_accepted_and_served(rest: Rest, document: Document) -> None:
    define(rest, document)
    spec = document["spec"]
    for version in spec["versions"]:
        served = rest.collection(spec["names"]["plural"], "", f"{spec['group']}/{version['name']}")
        assert served.list().status_code == (200 if version["served"] else 404)
