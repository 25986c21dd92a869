"""Events in both their API groups."""

from tests.integration.apiserver.objects import pod
from tests.integration.apiserver.rest import Document, Rest, causes, names, ok, refused

NEW = "events.k8s.io/v1"


def new_event(name: str, namespace: str, **fields: object) -> Document:
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "a"}
    return {
        "apiVersion": NEW,
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "assigned",
        "reportingController": "koordpy",
        "reportingInstance": "koordpy-1",
        "regarding": regarding,
        **fields,
    }


def test_event_of_the_new_group_is_read_in_the_old_one_too(rest: Rest, namespace: str) -> None:
    created = ok(rest.collection("events", namespace, NEW).create(new_event("e", namespace)), 201)
    assert created["note"] == "assigned"
    old = ok(rest.collection("events", namespace).get("e"))
    assert (old["message"], old["involvedObject"]["name"]) == ("assigned", "a")
    assert (old["reportingComponent"], old["reportingInstance"]) == ("koordpy", "koordpy-1")
    assert old["metadata"]["uid"] == created["metadata"]["uid"]


def test_event_of_the_old_group_is_read_in_the_new_one_too(rest: Rest, namespace: str) -> None:
    involved = {"kind": "Pod", "namespace": namespace, "name": "a"}
    document = {
        "metadata": {"name": "e"},
        "involvedObject": involved,
        "reason": "Failed",
        "message": "it broke",
        "type": "Warning",
        "count": 2,
    }
    ok(rest.collection("events", namespace).create(document), 201)
    new = ok(rest.collection("events", namespace, NEW).get("e"))
    assert (new["note"], new["regarding"]["name"], new["deprecatedCount"]) == ("it broke", "a", 2)


def test_events_are_selected_by_what_they_are_about(rest: Rest, namespace: str) -> None:
    created = ok(rest.collection("pods", namespace).create(pod("a")), 201)
    uid = created["metadata"]["uid"]
    regarding = new_event("", namespace)["regarding"] | {"uid": uid}
    events = rest.collection("events", namespace, NEW)
    ok(events.create(new_event("mine", namespace, regarding=regarding)), 201)
    ok(events.create(new_event("other", namespace, reason="Evicted", type="Warning")), 201)
    old = rest.collection("events", namespace)
    assert names(ok(old.list(fieldSelector=f"involvedObject.uid={uid}"))) == ["mine"]
    assert names(ok(old.list(fieldSelector="involvedObject.kind=Pod,involvedObject.name=a"))) == [
        "mine",
        "other",
    ]
    assert names(ok(old.list(fieldSelector="reason=Evicted"))) == ["other"]
    assert names(ok(old.list(fieldSelector="type!=Warning"))) == ["mine"]


def test_event_must_be_in_the_namespace_of_its_object(rest: Rest, namespace: str) -> None:
    involved = {"kind": "Pod", "namespace": "elsewhere", "name": "a"}
    event = {"metadata": {"name": "e"}, "involvedObject": involved, "reason": "Failed"}
    found = causes(refused(rest.collection("events", namespace).create(event), 422, "Invalid"))
    assert "involvedObject.namespace" in found


def test_new_events_need_their_reporter_and_action(rest: Rest, namespace: str) -> None:
    event = new_event("e", namespace)
    del event["reportingController"], event["action"]
    found = causes(refused(rest.collection("events", namespace, NEW).create(event), 422, "Invalid"))
    assert {"reportingController", "action"} <= set(found)


def test_series_is_patched(rest: Rest, namespace: str) -> None:
    events = rest.collection("events", namespace, NEW)
    ok(events.create(new_event("e", namespace)), 201)
    series = {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}
    assert ok(events.patch("e", {"series": series}), 200)["series"] == series


def test_times_that_are_unknown_are_null(rest: Rest, namespace: str) -> None:
    about = {"kind": "Pod", "namespace": namespace, "name": "a"}
    core, new = rest.collection("events", namespace), rest.collection("events", namespace, "events.k8s.io/v1")
    ok(core.create({"metadata": {"name": "a"}, "involvedObject": about, "reason": "Tested"}), 201)
    found = ok(core.get("a"))
    assert {found[name] for name in ("eventTime", "firstTimestamp", "lastTimestamp")} == {None}
    assert (found["reportingComponent"], found["reportingInstance"], found["source"]) == ("", "", {})
    found = ok(new.get("a"))
    assert {found[n] for n in ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")} == {None}
    assert "reportingController" not in found
