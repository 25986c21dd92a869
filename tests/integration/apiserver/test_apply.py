"""Server-side apply, as far as ``kubectl apply --server-side`` and controllers need it."""

from tests.integration.apiserver.objects import config_map
from tests.integration.apiserver.rest import APPLY, Collection, ok, refused


def test_applied_object_is_created_then_updated(maps: Collection) -> None:
    ok(maps.patch("a", config_map("a", key="1"), APPLY, fieldManager="test"), 201)
    applied = ok(maps.patch("a", config_map("a", key="2"), APPLY, fieldManager="test"), 200)
    assert applied["data"] == {"key": "2"}


def test_apply_leaves_fields_of_others_alone(maps: Collection) -> None:
    ok(maps.create(config_map("a", theirs="1")), 201)
    applied = ok(maps.patch("a", config_map("a", mine="1"), APPLY, fieldManager="test"), 200)
    assert applied["data"] == {"theirs": "1", "mine": "1"}


def test_field_that_is_no_longer_applied_goes(maps: Collection) -> None:
    ok(maps.patch("a", config_map("a", one="1", two="2"), APPLY, fieldManager="test"), 201)
    applied = ok(maps.patch("a", config_map("a", one="1"), APPLY, fieldManager="test"), 200)
    assert applied["data"] == {"one": "1"}


def test_field_of_another_manager_is_a_conflict_unless_forced(maps: Collection) -> None:
    ok(maps.patch("a", config_map("a", key="1"), APPLY, fieldManager="first"), 201)
    second = config_map("a", key="2")
    status = refused(maps.patch("a", second, APPLY, fieldManager="second"), 409, "Conflict")
    (cause,) = status["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.key")
    forced = ok(maps.patch("a", second, APPLY, fieldManager="second", force="true"), 200)
    assert forced["data"] == {"key": "2"}


def test_apply_needs_a_field_manager(maps: Collection) -> None:
    assert maps.patch("a", config_map("a"), APPLY).status_code in (400, 422)
    refused(maps.get("a"), 404, "NotFound")


def test_body_may_be_yaml(maps: Collection) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: value}\n"
    assert ok(maps.patch("a", body, APPLY, fieldManager="test"), 201)["data"] == {"key": "value"}
