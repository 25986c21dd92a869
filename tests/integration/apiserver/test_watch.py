"""Watches: where they start, what they tell, how they end."""

from typing import Any

import pytest

from tests.integration.apiserver.objects import config_map, pod
from tests.integration.apiserver.rest import Collection, Rest, ok, refused
from tests.integration.apiserver.server import Server


def version(collection: Collection) -> str:
    """The version of the collection now."""
    text: str = ok(collection.list())["metadata"]["resourceVersion"]
    return text


def test_watch_from_a_list_tells_all_later_changes_in_order(filled: Collection) -> None:
    with filled.watch(resourceVersion=version(filled)) as watch:
        created = ok(filled.create(config_map("f")), 201)
        patched = ok(filled.patch("f", {"data": {"key": "value"}}))
        ok(filled.delete("f"))
        added, modified, deleted = (watch.next() for _ in range(3))
    assert (added["type"], modified["type"], deleted["type"]) == ("ADDED", "MODIFIED", "DELETED")
    assert added["object"] == created
    assert modified["object"] == patched
    assert deleted["object"]["data"] == {"key": "value"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (added, modified, deleted)]
    assert versions == sorted(set(versions))


def test_watch_from_an_older_version_replays_what_happened_since(filled: Collection) -> None:
    start = version(filled)
    ok(filled.create(config_map("f")), 201)
    ok(filled.delete("a"))
    with filled.watch(resourceVersion=start) as watch:
        assert watch.take(2) == [("ADDED", "f"), ("DELETED", "a")]


@pytest.mark.parametrize("start", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
def test_watch_from_nowhere_starts_with_what_is_there(filled: Collection, start: dict[str, Any]) -> None:
    version(filled)  # a list first: version 0 may otherwise be answered from a cache that is behind
    with filled.watch(**start) as watch:
        assert watch.take(5) == [("ADDED", name) for name in "abcde"]
        ok(filled.create(config_map("f")), 201)
        assert watch.take(1) == [("ADDED", "f")]


def test_watch_sees_its_own_namespace_only(rest: Rest, maps: Collection) -> None:
    with maps.watch(resourceVersion=version(maps)) as watch:
        elsewhere = config_map()
        elsewhere["metadata"] = {"generateName": "elsewhere-"}
        ok(rest.collection("configmaps", "default").create(elsewhere), 201)
        ok(maps.create(config_map("a")), 201)
        assert watch.take(1) == [("ADDED", "a")]


def test_object_that_enters_a_selection_is_added_and_one_that_leaves_is_deleted(filled: Collection) -> None:
    with filled.watch(resourceVersion=version(filled), labelSelector="tier=web") as watch:
        ok(filled.patch("d", {"metadata": {"labels": {"tier": "web"}}}))
        ok(filled.patch("d", {"data": {"key": "1"}}))
        left = ok(filled.patch("d", {"metadata": {"labels": {"tier": "db"}}, "data": {"key": "2"}}))
        ok(filled.patch("e", {"data": {"unseen": "1"}}))
        ok(filled.delete("a"))
        events = [watch.next() for _ in range(4)]
    seen = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
    assert seen == [("ADDED", "d"), ("MODIFIED", "d"), ("DELETED", "d"), ("DELETED", "a")]
    # The object as it last was in the selection, at the version that took it out.
    gone = events[2]["object"]
    assert (gone["metadata"]["labels"], gone["data"]) == ({"tier": "web"}, {"key": "1"})
    assert gone["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


def test_field_selector_follows_pods_to_their_node(rest: Rest, pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    ok(pods.create(pod("b")), 201)
    with (
        pods.watch(resourceVersion=version(pods), fieldSelector="spec.nodeName=") as waiting,
        pods.watch(resourceVersion=version(pods), fieldSelector="spec.nodeName=node-1") as bound,
    ):
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": target}
        ok(pods.post("a", "binding", binding), 201)
        assert waiting.take(1) == [("DELETED", "a")]
        assert bound.take(1) == [("ADDED", "a")]


def test_one_object_is_watched_by_its_name(filled: Collection) -> None:
    with filled.watch(resourceVersion=version(filled), fieldSelector="metadata.name=b") as watch:
        ok(filled.delete("a"))
        ok(filled.delete("b"))
        assert watch.take(1) == [("DELETED", "b")]


def test_update_that_changes_nothing_is_not_told(filled: Collection) -> None:
    with filled.watch(resourceVersion=version(filled)) as watch:
        ok(filled.patch("a", {"metadata": {"labels": {"tier": "web"}}}))
        ok(filled.delete("b"))
        assert watch.take(1) == [("DELETED", "b")]


def test_watch_ends_after_its_timeout(filled: Collection) -> None:
    with filled.watch(resourceVersion=version(filled), timeoutSeconds=1) as watch:
        assert watch.rest() == []


def test_watch_from_a_forgotten_version_is_told_so_in_an_event(
    apiserver: Server, widgets: Collection
) -> None:
    apiserver.forget()
    # Version 1 is from before widgets were defined, so no cache of theirs reaches back to it.
    with widgets.watch(resourceVersion="1") as watch:
        event = watch.next()
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert watch.rest() == []


def test_bookmark_tells_the_newest_version_before_the_end_of_a_watch(rest: Rest, filled: Collection) -> None:
    params: dict[str, Any] = {
        "resourceVersion": version(filled),
        "allowWatchBookmarks": "true",
        "timeoutSeconds": 3,
    }
    with filled.watch(**params) as watch:
        elsewhere = {"metadata": {"generateName": "elsewhere-"}}
        created = ok(rest.collection("configmaps", "default").create(elsewhere), 201)
        events = watch.rest()
    assert events
    assert {event["type"] for event in events} == {"BOOKMARK"}
    bookmark = events[-1]["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])
    with filled.watch(resourceVersion=bookmark["metadata"]["resourceVersion"]) as watch:
        ok(filled.delete("a"))
        assert watch.take(1) == [("DELETED", "a")]


def test_streamed_list_ends_with_a_marked_bookmark(filled: Collection) -> None:
    with filled.watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    ) as watch:
        assert watch.take(5) == [("ADDED", name) for name in "abcde"]
        end = watch.next()
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(end["object"]["metadata"]["resourceVersion"]) > 0
        ok(filled.delete("a"))
        assert watch.take(1) == [("DELETED", "a")]


def test_streamed_list_needs_a_version_match(filled: Collection) -> None:
    refused(filled.list(watch="true", sendInitialEvents="true", allowWatchBookmarks="true"), 422, "Invalid")


def test_version_match_is_for_streamed_lists_only(filled: Collection) -> None:
    params = {"watch": "true", "resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}
    refused(filled.list(**params), 422, "Invalid")


def test_resource_version_that_is_none_is_refused(filled: Collection) -> None:
    assert filled.list(watch="true", resourceVersion="abc").status_code >= 400


def test_bad_selector_of_a_watch_is_400(filled: Collection) -> None:
    refused(filled.list(watch="true", labelSelector="a b"), 400, "BadRequest")


def test_events_are_lines_of_json(filled: Collection) -> None:
    with filled.watch() as watch:
        assert watch.response.headers["Content-Type"] == "application/json"
        assert {watch.next()["object"]["kind"] for _ in range(5)} == {"ConfigMap"}


def test_only_metadata_is_watched_by_who_asks_for_it(filled: Collection) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    with filled.watch(accept, resourceVersion=version(filled)) as watch:
        ok(filled.patch("a", {"data": {"key": "value"}}))
        event = watch.next()
    assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "PartialObjectMetadata")
    assert "data" not in event["object"]


def test_many_watches_of_one_collection_see_the_same(filled: Collection) -> None:
    start = version(filled)
    with filled.watch(resourceVersion=start) as first, filled.watch(resourceVersion=start) as second:
        ok(filled.delete("a"))
        assert first.next() == second.next()
