"""Admission webhooks: who is called, with what, in which order, and what comes of the answers."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.process import free_port
from tests.integration.apiserver.custom_resources import GROUP, widget
from tests.integration.apiserver.objects import config_map, pod
from tests.integration.apiserver.rest import Collection, Document, Rest, causes, ok, refused
from tests.integration.apiserver.webhook_server import WebhookServer, allow, denying, mark, patching

Install = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path)
    yield server
    server.close()


@pytest.fixture
def mutating(rest: Rest, hooks: WebhookServer, namespace: str) -> Install:
    """``with mutating(webhook, ...)`` installs them in one configuration."""
    return lambda *webhooks, name=namespace: hooks.installed(
        rest, "Mutating", name, namespace, list(webhooks)
    )


@pytest.fixture
def validating(rest: Rest, hooks: WebhookServer, namespace: str) -> Install:
    return lambda *webhooks, name=namespace: hooks.installed(
        rest, "Validating", name, namespace, list(webhooks)
    )


def rule(*resources: str, operations: tuple[str, ...] = ("CREATE",), group: str = "") -> Document:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }


def data() -> Document:
    return config_map("a", key="value")


def test_patch_is_applied_to_what_is_stored(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", patching(mark("one")), namespace)):
        created = ok(maps.create(data()), 201)
    assert created["data"] == {"key": "value", "one": "set"}
    assert ok(maps.get("a")) == created


def test_request_tells_what_is_asked_for(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, timeoutSeconds=7)):
        ok(maps.create(data()), 201)
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
    created = ok(maps.create(data()), 201)
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
    ok(maps.create(data()), 201)
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
        created = ok(maps.create(data()), 201)
    assert created["data"] == {"key": "value", "one": "again", "two": "set"}
    assert hooks.seen["two"][0]["object"]["data"] == {"key": "value", "one": "set"}


def test_configurations_are_called_in_order_of_their_names(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    last = hooks.webhook("last", patching(mark("last")), namespace)
    first = hooks.webhook("first", patching(mark("first")), namespace)
    with mutating(last, name=f"z-{namespace}"), mutating(first, name=f"a-{namespace}"):
        ok(maps.create(data()), 201)
    assert set(hooks.seen["last"][0]["object"]["data"]) == {"key", "first"}


def test_validating_webhooks_see_the_mutated_object(
    hooks: WebhookServer, mutating: Install, validating: Install, maps: Collection, namespace: str
) -> None:
    check = hooks.webhook("check", allow, namespace)
    with validating(check), mutating(hooks.webhook("one", patching(mark("one")), namespace)):
        ok(maps.create(data()), 201)
    assert hooks.seen["check"][0]["object"]["data"] == {"key": "value", "one": "set"}


def test_earlier_webhook_is_asked_again_where_it_wants_to_be(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    again = hooks.webhook("again", allow, namespace, reinvocationPolicy="IfNeeded")
    once = hooks.webhook("once", allow, namespace)
    with mutating(again, once, hooks.webhook("change", patching(mark("change")), namespace)):
        ok(maps.create(data()), 201)
    assert [set(request["object"]["data"]) for request in hooks.seen["again"]] == [
        {"key"},
        {"key", "change"},
    ]
    assert len(hooks.seen["once"]) == 1


def test_denial_is_a_bad_request_with_its_message_where_it_names_no_code(
    hooks: WebhookServer, validating: Install, maps: Collection, namespace: str
) -> None:
    with validating(hooks.webhook("one", denying("too blue"), namespace)):
        status = refused(maps.create(data()), 400, "")
    assert status["message"] == 'admission webhook "one.example.com" denied the request: too blue'
    refused(maps.get("a"), 404, "NotFound")


def test_denial_may_choose_code_and_reason(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", denying("full", 429, reason="TooManyRequests"), namespace)):
        status = refused(maps.create(data()), 429, "TooManyRequests")
    assert status["message"] == 'admission webhook "one.example.com" denied the request: full'


def test_denial_without_a_word_is_explained(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", lambda request: {"allowed": False}, namespace)):
        response = maps.create(data())
    assert response.status_code in (400, 403)
    expected = 'admission webhook "one.example.com" denied the request without explanation'
    assert response.json()["message"] == expected


def test_warnings_reach_the_client(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    def warn(request: Document) -> Document:
        return {"allowed": True, "warnings": [f"{request['name']} is old"]}

    with mutating(hooks.webhook("one", warn, namespace)):
        response = maps.create(data())
    assert ok(response, 201)
    assert response.headers["Warning"] == '299 - "a is old"'


def test_object_is_validated_after_its_mutation(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    bad = {"op": "add", "path": "/metadata/labels", "value": {"tier": "no spaces"}}
    with mutating(hooks.webhook("one", patching(bad), namespace)):
        status = refused(maps.create(data()), 422, "Invalid")
    assert causes(status) == {"metadata.labels": "FieldValueInvalid"}


def test_patch_that_cannot_be_applied_is_an_error(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    bad = {"op": "remove", "path": "/data/missing"}
    with mutating(hooks.webhook("one", patching(bad), namespace, failurePolicy="Ignore")):
        assert maps.create(data()).status_code == 500
    refused(maps.get("a"), 404, "NotFound")


def test_unreachable_webhook_fails_the_request_by_default(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    webhook = hooks.webhook("one", allow, namespace)
    webhook["clientConfig"]["url"] = f"https://127.0.0.1:{free_port()}/one"
    with mutating(webhook):
        status = refused(maps.create(data()), 500, "InternalError")
    assert 'failed calling webhook "one.example.com"' in status["message"]


def test_unreachable_webhook_is_ignored_where_its_policy_says_so(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    webhook = hooks.webhook("one", allow, namespace, failurePolicy="Ignore")
    webhook["clientConfig"]["url"] = f"https://127.0.0.1:{free_port()}/one"
    with mutating(webhook, hooks.webhook("two", patching(mark("two")), namespace)):
        assert ok(maps.create(data()), 201)["data"] == {"key": "value", "two": "set"}


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_answer_that_is_no_review_is_a_failure(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, policy: str, code: int
) -> None:
    with mutating(hooks.webhook("one", None, namespace, failurePolicy=policy)):
        assert maps.create(data()).status_code == code
    assert len(hooks.seen["one"]) == 1


def test_answer_to_another_request_is_a_failure(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", lambda request: {"uid": "other", "allowed": True}, namespace)):
        refused(maps.create(data()), 500, "InternalError")


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_slow_webhook_is_a_failure_after_its_timeout(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, policy: str, code: int
) -> None:
    def slow(request: Document) -> Document:
        time.sleep(2)
        return {"allowed": True}

    with mutating(hooks.webhook("one", slow, namespace, failurePolicy=policy, timeoutSeconds=1)):
        assert maps.create(data()).status_code == code


def test_untrusted_certificate_is_a_failure(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, tmp_path: Path
) -> None:
    other = WebhookServer(tmp_path / "other")
    try:
        webhook = hooks.webhook("one", allow, namespace)
        webhook["clientConfig"]["caBundle"] = other.ca_bundle
        with mutating(webhook):
            refused(maps.create(data()), 500, "InternalError")
    finally:
        other.close()
    assert hooks.seen["one"] == []


def test_namespace_selector_limits_the_namespaces(
    rest: Rest, hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    ok(rest.collection("namespaces").patch(namespace, {"metadata": {"labels": {"tier": "web"}}}))
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["web"]}]
    only = {"kubernetes.io/metadata.name": namespace}
    unselected = {"matchLabels": only, "matchExpressions": expressions}
    selected = {"matchLabels": only | {"tier": "web"}}
    with mutating(
        hooks.webhook("no", allow, namespace, namespaceSelector=unselected),
        hooks.webhook("yes", allow, namespace, namespaceSelector=selected),
    ):
        ok(maps.create(data()), 201)
    assert (len(hooks.seen["no"]), len(hooks.seen["yes"])) == (0, 1)


def test_object_selector_looks_at_the_old_and_the_new_object(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    selector = {"matchLabels": {"tier": "web"}}
    rules = [rule("configmaps", operations=("CREATE", "UPDATE"))]
    with mutating(hooks.webhook("one", allow, namespace, objectSelector=selector, rules=rules)):
        ok(maps.create(config_map("plain", key="1")), 201)
        assert hooks.seen["one"] == []
        ok(maps.create(config_map("web", {"tier": "web"}, key="1")), 201)
        ok(maps.patch("web", {"metadata": {"labels": {"tier": None}}}), 200)
        assert [request["operation"] for request in hooks.seen["one"]] == ["CREATE", "UPDATE"]
        ok(maps.patch("web", {"data": {"key": "2"}}), 200)
        assert len(hooks.seen["one"]) == 2


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        ({"resources": ["configmaps"]}, True),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["configmaps/*"]}, True),
        ({"resources": ["secrets"]}, False),
        ({"resources": ["configmaps"], "apiGroups": ["*"]}, True),
        ({"resources": ["configmaps"], "apiGroups": ["apps"]}, False),
        ({"resources": ["configmaps"], "apiVersions": ["*"]}, True),
        ({"resources": ["configmaps"], "operations": ["*"]}, True),
        ({"resources": ["configmaps"], "operations": ["UPDATE"]}, False),
        ({"resources": ["configmaps"], "scope": "Namespaced"}, True),
        ({"resources": ["configmaps"], "scope": "Cluster"}, False),
    ],
    ids=str,
)
def test_rules_choose_the_requests(
    hooks: WebhookServer,
    mutating: Install,
    maps: Collection,
    namespace: str,
    fields: dict[str, Any],
    called: bool,
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, rules=[rule() | fields])):
        ok(maps.create(data()), 201)
    assert bool(hooks.seen["one"]) is called


def test_subresources_have_rules_of_their_own(
    hooks: WebhookServer, validating: Install, pods: Collection, namespace: str
) -> None:
    operations = ("CREATE", "UPDATE")
    with validating(
        hooks.webhook("pods", allow, namespace, rules=[rule("pods", operations=operations)]),
        hooks.webhook("status", allow, namespace, rules=[rule("pods/status", operations=operations)]),
        hooks.webhook("binding", allow, namespace, rules=[rule("pods/binding", operations=operations)]),
    ):
        ok(pods.create(pod("a")), 201)
        ok(pods.patch("a", {"status": {"message": "x"}}, sub="status"), 200)
        target = {"kind": "Node", "name": "node-1"}
        ok(pods.post("a", "binding", {"metadata": {"name": "a"}, "target": target}), 201)
    assert {name: len(hooks.seen[name]) for name in ("pods", "status", "binding")} == {
        "pods": 1,
        "status": 1,
        "binding": 1,
    }
    (status,) = hooks.seen["status"]
    assert (status["subResource"], status["resource"]["resource"]) == ("status", "pods")
    (binding,) = hooks.seen["binding"]
    assert (binding["kind"]["kind"], binding["operation"]) == ("Binding", "CREATE")


def test_webhooks_are_called_for_custom_resources(
    hooks: WebhookServer, mutating: Install, widgets: Collection, namespace: str
) -> None:
    change = {"op": "replace", "path": "/spec/size", "value": 5}
    rules = [rule("widgets", group=GROUP)]
    with mutating(hooks.webhook("one", patching(change), namespace, rules=rules)):
        assert ok(widgets.create(widget("a")), 201)["spec"]["size"] == 5
    assert hooks.seen["one"][0]["object"]["spec"]["colour"] == "red"


def test_dry_run_is_told(hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str) -> None:
    with mutating(hooks.webhook("one", patching(mark("one")), namespace)):
        answer = ok(maps.create(data(), dryRun="All"), 201)
    assert answer["data"] == {"key": "value", "one": "set"}
    assert hooks.seen["one"][0]["dryRun"] is True
    refused(maps.get("a"), 404, "NotFound")


def test_webhook_without_side_effects_on_dry_runs_is_asked(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, sideEffects="NoneOnDryRun")):
        ok(maps.create(data(), dryRun="All"), 201)
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


def test_match_conditions_decide_last(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    def conditions(expression: str) -> list[Document]:
        return [{"name": "one", "expression": expression}]

    with mutating(
        hooks.webhook("yes", allow, namespace, matchConditions=conditions("object.metadata.name == 'a'")),
        hooks.webhook("no", allow, namespace, matchConditions=conditions("request.operation == 'DELETE'")),
    ):
        ok(maps.create(data()), 201)
    assert (len(hooks.seen["yes"]), len(hooks.seen["no"])) == (1, 0)


def test_configuration_is_given_its_defaults(rest: Rest, unique: Callable[[str], str]) -> None:
    name = unique("conformance")
    webhook = {
        "name": "one.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    configurations = rest.collection("mutatingwebhookconfigurations")
    created = ok(configurations.create({"metadata": {"name": name}, "webhooks": [webhook]}), 201)
    (found,) = created["webhooks"]
    assert (found["failurePolicy"], found["timeoutSeconds"]) == ("Fail", 10)
    assert (found["matchPolicy"], found["reinvocationPolicy"]) == ("Equivalent", "Never")
    assert (found["namespaceSelector"], found["objectSelector"]) == ({}, {})
    assert created["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sideEffects": None}, "webhooks[0].sideEffects"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": None}, "webhooks[0].admissionReviewVersions"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy"),
        ({"name": "short"}, "webhooks[0].name"),
        ({"clientConfig": {"url": "http://127.0.0.1:1/"}}, "webhooks[0].clientConfig.url"),
    ],
    ids=str,
)
def test_invalid_configuration_is_refused_with_its_field(
    rest: Rest, unique: Callable[[str], str], change: dict[str, Any], field: str
) -> None:
    webhook = {
        "name": "one.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **change,
    }
    document = {"metadata": {"name": unique("conformance")}, "webhooks": [webhook]}
    status = refused(rest.collection("validatingwebhookconfigurations").create(document), 422, "Invalid")
    assert field in causes(status)
