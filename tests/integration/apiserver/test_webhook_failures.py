"""Webhooks that do not answer, or answer nonsense: the failure policy decides."""

import time
from pathlib import Path

import pytest

from tests.e2e.controlplane.process import free_port
from tests.integration.apiserver.rest import Collection, Document, ok, refused
from tests.integration.apiserver.webhook_server import (
    Install,
    WebhookServer,
    allow,
    mark,
    patching,
    subject,
)


def test_patch_that_cannot_be_applied_is_an_error(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    bad = {"op": "remove", "path": "/data/missing"}
    with mutating(hooks.webhook("one", patching(bad), namespace, failurePolicy="Ignore")):
        assert maps.create(subject()).status_code == 500
    refused(maps.get("a"), 404, "NotFound")


def test_unreachable_webhook_fails_the_request_by_default(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    webhook = hooks.webhook("one", allow, namespace)
    webhook["clientConfig"]["url"] = f"https://127.0.0.1:{free_port()}/one"
    with mutating(webhook):
        status = refused(maps.create(subject()), 500, "InternalError")
    assert 'failed calling webhook "one.example.com"' in status["message"]


def test_unreachable_webhook_is_ignored_where_its_policy_says_so(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    webhook = hooks.webhook("one", allow, namespace, failurePolicy="Ignore")
    webhook["clientConfig"]["url"] = f"https://127.0.0.1:{free_port()}/one"
    with mutating(webhook, hooks.webhook("two", patching(mark("two")), namespace)):
        assert ok(maps.create(subject()), 201)["data"] == {"key": "value", "two": "set"}


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_answer_that_is_no_review_is_a_failure(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, policy: str, code: int
) -> None:
    with mutating(hooks.webhook("one", None, namespace, failurePolicy=policy)):
        assert maps.create(subject()).status_code == code
    assert len(hooks.seen["one"]) == 1


def test_answer_to_another_request_is_a_failure(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str
) -> None:
    with mutating(hooks.webhook("one", lambda request: {"uid": "other", "allowed": True}, namespace)):
        refused(maps.create(subject()), 500, "InternalError")


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_slow_webhook_is_a_failure_after_its_timeout(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, policy: str, code: int
) -> None:
    def slow(request: Document) -> Document:
        time.sleep(2)
        return {"allowed": True}

    with mutating(hooks.webhook("one", slow, namespace, failurePolicy=policy, timeoutSeconds=1)):
        assert maps.create(subject()).status_code == code


def test_untrusted_certificate_is_a_failure(
    hooks: WebhookServer, mutating: Install, maps: Collection, namespace: str, tmp_path: Path
) -> None:
    other = WebhookServer(tmp_path / "other")
    try:
        webhook = hooks.webhook("one", allow, namespace)
        webhook["clientConfig"]["caBundle"] = other.ca_bundle
        with mutating(webhook):
            refused(maps.create(subject()), 500, "InternalError")
    finally:
        other.close()
    assert hooks.seen["one"] == []
