"""Which requests reach a webhook: its rules, selectors and match conditions."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.apiserver.custom_resources import GROUP, widget
from tests.integration.apiserver.objects import config_map, pod
from tests.integration.apiserver.rest import Collection, Document, Rest, causes, ok, refused
from tests.integration.apiserver.webhook_server import Install, WebhookServer, allow, patching, rule, subject


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
        ok(maps.create(subject()), 201)
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
        changed = ok(maps.patch("web", {"metadata": {"labels": {"tier": None}}}), 200)
        assert [request["operation"] for request in hooks.seen["one"]] == ["CREATE", "UPDATE"]
        # kube-apiserver applies a patch to the object in its watch cache first, and calls webhooks even if
        # that one is out of date. This waits until the cache has the change.
        ok(maps.get("web", resourceVersion=changed["metadata"]["resourceVersion"]), 200)
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
        ok(maps.create(subject()), 201)
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


def condition(expression: str, name: str = "one") -> Document:
    return {"name": name, "expression": expression}


@pytest.mark.parametrize(
    ("expression", "called"),
    [
        ("object.metadata.name == 'a'", True),
        ("object.metadata.name != 'a'", False),
        ("request.operation == 'DELETE'", False),
        ("request.kind.kind == 'ConfigMap'", True),
        ("request.namespace.startsWith('conformance-')", True),
        ("request.dryRun", False),
        ("has(object.data.key) && object.data.key == 'value'", True),
        ("has(object.metadata.labels)", False),
        ("!has(object.metadata.labels) || 'x' in object.metadata.labels", True),
        ("object.metadata.name in ['a', 'b']", True),
        ("'key' in object.data", True),
        ("size(object.data) > 1", False),
        ("object.data['key'].matches('^val')", True),
        ("oldObject == null", True),
        ("has(object.data.key) ? object.data.key.endsWith('e') : false", True),
        ("(object.metadata.name == 'a' || false) && !(1 >= 2)", True),
    ],
)
def test_match_condition_decides(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, expression: str, called: bool
) -> None:
    with mutating(hooks.webhook("one", allow, namespace, matchConditions=[condition(expression)])):
        ok(maps.create(subject()), 201)
    assert bool(hooks.seen["one"]) is called


BROKEN = "object.metadata.labels['missing'] == 'x'"


def test_all_match_conditions_must_hold(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    mixed = [condition("true"), condition("object.metadata.name == 'b'", "two")]
    with mutating(hooks.webhook("one", allow, namespace, matchConditions=mixed)):
        ok(maps.create(subject()), 201)
    assert hooks.seen["one"] == []


def test_match_condition_that_is_false_wins_over_one_that_fails(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    mixed = [condition(BROKEN), condition("false", "two")]
    with mutating(hooks.webhook("one", allow, namespace, matchConditions=mixed)):
        ok(maps.create(subject()), 201)
    assert hooks.seen["one"] == []


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_match_condition_that_fails_is_left_to_the_failure_policy(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, policy: str
) -> None:
    fields = {"matchConditions": [condition(BROKEN)], "failurePolicy": policy}
    with mutating(hooks.webhook("one", allow, namespace, **fields)):
        response = maps.create(subject())
    assert response.status_code == (403 if policy == "Fail" else 201)
    assert hooks.seen["one"] == []


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
        (
            {"matchConditions": [{"name": "one", "expression": "object.metadata.name =="}]},
            "webhooks[0].matchConditions[0].expression",
        ),
        (
            {"matchConditions": [{"name": "one", "expression": "'text'"}]},
            "webhooks[0].matchConditions[0].expression",
        ),
        (
            {"matchConditions": [{"name": "", "expression": "true"}]},
            "webhooks[0].matchConditions[0].name",
        ),
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
