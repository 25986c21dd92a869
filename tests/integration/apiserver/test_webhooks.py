"""Admission webhooks: what they are told, in which order, and what comes of their answers."""

from collections.abc import Callable

from tests.integration.apiserver.objects import pod
from tests.integration.apiserver.rest import Collection, Document, Rest, causes, ok, refused
from tests.integration.apiserver.webhook_server import (
    Install,
    WebhookServer,
    allow,
    denying,
    mark,
    patching,
    rule,
    subject,
)


def test_patch_is_applied_to_what_is_stored(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", patching(mark("one")), namespace)):
        created = ok(maps.create(subject()), 201)
    assert created["data"] == {"key": "value", "one": "set"}
    assert ok(maps.get("a")) == created


def test_request_tells_what_is_asked_for(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, timeoutSeconds=7)):
        ok(maps.create(subject()), 201)
    (request,) = hooks.seen["one"]
    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["requestKind"], request["requestResource"]) == (request["kind"], request["resource"])
    assert (request["name"], request["namespace"]) == ("a", namespace)
    assert request["object"]["data"] == {"key": "value"}
    assert (request["object"]["kind"], request["object"]["apiVersion"]) == ("ConfigMap", "v1")
    assert request["oldObject"] is None
    assert request["dryRun"] is False
    assert request["options"]["kind"] == "CreateOptions"
    assert request["uid"]
    assert "userInfo" in request
    assert hooks.queries["one"] == "timeout=7s"


def test_update_carries_the_old_object(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    created = ok(maps.create(subject()), 201)
    rules = [rule("configmaps", operations=("UPDATE",))]
    with mutating(hooks.webhook("one", patching(mark("one")), namespace, rules=rules)):
        patched = ok(maps.patch("a", {"data": {"key": "other"}}), 200)
    assert patched["data"] == {"key": "other", "one": "set"}
    (request,) = hooks.seen["one"]
    assert request["operation"] == "UPDATE"
    assert request["oldObject"]["data"] == {"key": "value"}
    assert request["oldObject"]["metadata"]["uid"] == created["metadata"]["uid"]
    assert request["object"]["data"] == {"key": "other"}


def test_delete_carries_the_old_object_only(
    hooks: WebhookServer, validating: Install, maps: Collection, namespace: str
) -> None:
    ok(maps.create(subject()), 201)
    rules = [rule("configmaps", operations=("DELETE",))]
    with validating(hooks.webhook("one", denying("not now"), namespace, rules=rules)):
        refused(maps.delete("a"), 400, "")
    (request,) = hooks.seen["one"]
    assert (request["operation"], request["name"], request["object"]) == ("DELETE", "a", None)
    assert request["oldObject"]["data"] == {"key": "value"}
    ok(maps.get("a"))


def test_webhooks_of_a_configuration_are_called_in_order_each_seeing_the_last_ones_changes(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    second = patching({"op": "replace", "path": "/data/one", "value": "again"}, mark("two"))
    with mutating(
        hooks.webhook("one", patching(mark("one")), namespace), hooks.webhook("two", second, namespace)
    ):
        created = ok(maps.create(subject()), 201)
    assert created["data"] == {"key": "value", "one": "again", "two": "set"}
    assert hooks.seen["two"][0]["object"]["data"] == {"key": "value", "one": "set"}


def test_configurations_are_called_in_order_of_their_names(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    last = hooks.webhook("last", patching(mark("last")), namespace)
    first = hooks.webhook("first", patching(mark("first")), namespace)
    with mutating(last, name=f"z-{namespace}"), mutating(first, name=f"a-{namespace}"):
        ok(maps.create(subject()), 201)
    assert set(hooks.seen["last"][0]["object"]["data"]) == {"key", "first"}


def test_validating_webhooks_see_the_mutated_object(
    hooks: WebhookServer, mutating: Install, validating: Install, maps: Collection, namespace: str
) -> None:
    check = hooks.webhook("check", allow, namespace)
    with validating(check), mutating(hooks.webhook("one", patching(mark("one")), namespace)):
        ok(maps.create(subject()), 201)
    assert hooks.seen["check"][0]["object"]["data"] == {"key": "value", "one": "set"}


def test_earlier_webhook_is_asked_again_where_it_wants_to_be(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    again = hooks.webhook("again", allow, namespace, reinvocationPolicy="IfNeeded")
    once = hooks.webhook("once", allow, namespace)
    with mutating(again, once, hooks.webhook("change", patching(mark("change")), namespace)):
        ok(maps.create(subject()), 201)
    assert [set(request["object"]["data"]) for request in hooks.seen["again"]] == [
        {"key"},
        {"key", "change"},
    ]
    assert len(hooks.seen["once"]) == 1


def test_denial_is_a_bad_request_with_its_message_where_it_names_no_code(
    hooks: WebhookServer, validating: Install, maps: Collection, namespace: str
) -> None:
    with validating(hooks.webhook("one", denying("too blue"), namespace)):
        status = refused(maps.create(subject()), 400, "")
    assert status["message"] == 'admission webhook "one.example.com" denied the request: too blue'
    refused(maps.get("a"), 404, "NotFound")


def test_denial_may_choose_code_and_reason(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", denying("full", 429, reason="TooManyRequests"), namespace)):
        status = refused(maps.create(subject()), 429, "TooManyRequests")
    assert status["message"] == 'admission webhook "one.example.com" denied the request: full'


def test_denial_without_a_word_is_explained(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", lambda request: {"allowed": False}, namespace)):
        response = maps.create(subject())
    assert response.status_code in (400, 403)
    expected = 'admission webhook "one.example.com" denied the request without explanation'
    assert response.json()["message"] == expected


def test_warnings_reach_the_client(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    def warn(request: Document) -> Document:
        return {"allowed": True, "warnings": [f"{request['name']} is old"]}

    with mutating(hooks.webhook("one", warn, namespace)):
        response = maps.create(subject())
    assert ok(response, 201)
    assert response.headers["Warning"] == '299 - "a is old"'


def test_object_is_validated_after_its_mutation(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    bad = {"op": "add", "path": "/metadata/labels", "value": {"tier": "no spaces"}}
    with mutating(hooks.webhook("one", patching(bad), namespace)):
        status = refused(maps.create(subject()), 422, "Invalid")
    assert causes(status) == {"metadata.labels": "FieldValueInvalid"}


def test_dry_run_is_told(hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str) -> None:
    with mutating(hooks.webhook("one", patching(mark("one")), namespace)):
        answer = ok(maps.create(subject(), dryRun="All"), 201)
    assert answer["data"] == {"key": "value", "one": "set"}
    assert hooks.seen["one"][0]["dryRun"] is True
    refused(maps.get("a"), 404, "NotFound")


def test_webhook_without_side_effects_on_dry_runs_is_asked(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, sideEffects="NoneOnDryRun")):
        ok(maps.create(subject(), dryRun="All"), 201)
    assert len(hooks.seen["one"]) == 1


def test_pod_is_defaulted_and_prioritized_before_webhooks_see_it(
    hooks: WebhookServer, mutating: Install, pods: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, rules=[rule("pods")])):
        ok(pods.create(pod("a")), 201)
    spec = hooks.seen["one"][0]["object"]["spec"]
    assert (spec["schedulerName"], spec["priority"], len(spec["tolerations"])) == ("default-scheduler", 0, 2)


def test_defaults_are_filled_into_what_a_webhook_adds(
    hooks: WebhookServer, mutating: Install, pods: Collection, namespace: str
) -> None:
    side = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}
    with mutating(hooks.webhook("one", patching(side), namespace, rules=[rule("pods")])):
        created = ok(pods.create(pod("a")), 201)
    assert created["spec"]["containers"][1]["imagePullPolicy"] == "IfNotPresent"


def test_webhook_that_changes_the_priority_class_must_change_the_priority_too(
    rest: Rest,
    hooks: WebhookServer,
    mutating: Install,
    pods: Collection,
    namespace: str,
    unique: Callable[[str], str],
) -> None:
    name = unique("class")
    ok(rest.collection("priorityclasses").create({"metadata": {"name": name}, "value": 5500}), 201)
    named = {"op": "add", "path": "/spec/priorityClassName", "value": name}
    valued = {"op": "replace", "path": "/spec/priority", "value": 5500}
    with mutating(hooks.webhook("one", patching(named), namespace, rules=[rule("pods")])):
        refused(pods.create(pod("a")), 403, "Forbidden")
    with mutating(hooks.webhook("one", patching(named, valued), namespace, rules=[rule("pods")])):
        created = ok(pods.create(pod("a")), 201)
    assert (created["spec"]["priorityClassName"], created["spec"]["priority"]) == (name, 5500)


def test_generated_name_is_not_known_to_mutating_webhooks(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", allow, namespace)):
        ok(maps.create({"metadata": {"generateName": "web-"}}), 201)
    (request,) = hooks.seen["one"]
    assert request["object"]["metadata"]["generateName"] == "web-"
