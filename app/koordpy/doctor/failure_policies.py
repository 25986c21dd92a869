"""Whether failure policies fit the state of the webhooks: Ignore until they are ready, Fail only then."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from koordpy.admission.serving import failure_policy

from .finding import Area, Finding

Document = Mapping[str, Any]

_COMPONENT = "deploy/kustomize/components/webhooks-fail-closed"


def check(area: Area, document: Document, shipped: Document, *, is_ready: bool | None) -> Iterator[Finding]:
    """Compare the policies of one configuration with the shipped one and with the webhooks' readiness.

    `is_ready` is None where readiness is not known.
    """
    name = document["metadata"]["name"]
    may_fail = failure_policy.names(shipped, failure_policy.FAIL_CLOSED)
    policies = {
        str(entry.get("name")): entry.get("failurePolicy", "Fail") for entry in document.get("webhooks") or ()
    }
    for title, policy in policies.items():
        known = any(entry["name"] == title for entry in shipped["webhooks"])
        if policy == "Fail" and known and title not in may_fail:
            yield area.warning(
                f"{name}: {title}",
                "failurePolicy is Fail, which no manifest of koordpy's sets: while no webhook answers, the "
                "cluster's own components are refused",
                _patch(document, [title], "Ignore"),
            )
    failing = [title for title in may_fail if policies.get(title) == "Fail"]
    ignoring = [title for title in may_fail if policies.get(title) == "Ignore"]
    if failing and is_ready is False:
        yield area.warning(
            name,
            f"failurePolicy is Fail, and no replica is ready: {_refused(document, failing)} are refused",
            "koordpy break-glass (Ignore until the webhooks are ready; --undo afterwards)",
        )
    if failure_policy.names(document, failure_policy.BREAK_GLASS):
        yield area.warning(
            name,
            "was opened with koordpy break-glass: while no webhook answers, objects pass as they are",
            "koordpy break-glass --undo, once the webhooks are ready",
        )
    elif ignoring and is_ready:
        yield area.note(
            name,
            f"failurePolicy is Ignore, and the webhooks are ready: with Fail, {_refused(document, ignoring)} "
            "can no longer pass as they are while no webhook answers",
            _close(document, ignoring),
        )


def _refused(document: Document, titles: list[str]) -> str:
    """Return the resources of webhooks."""
    return ", ".join(
        dict.fromkeys(
            resource
            for entry in document["webhooks"]
            if entry.get("name") in titles
            for rule in entry.get("rules") or ()
            for resource in rule.get("resources") or ()
        )
    )


def _close(document: Document, titles: list[str]) -> str:
    """Return the command that sets Fail, in the way in which the configuration was installed."""
    meta = document["metadata"]
    annotations = meta.get("annotations") or {}
    release = annotations.get("meta.helm.sh/release-name")
    if release:
        namespace = annotations.get("meta.helm.sh/release-namespace", "koordinator-system")
        return (
            f"helm upgrade {release} deploy/helm/koordpy -n {namespace} --reuse-values "
            "--set webhooks.failurePolicy=Fail"
        )
    return f"{_patch(document, titles, 'Fail')}; to keep it, add the component {_COMPONENT} to your overlay"


def _patch(document: Document, titles: list[str], policy: str) -> str:
    patch = {"webhooks": [{"name": title, "failurePolicy": policy} for title in titles]}
    text = json.dumps(patch, separators=(",", ":"))
    return f"kubectl patch {document['kind'].lower()} {document['metadata']['name']} -p '{text}'"
