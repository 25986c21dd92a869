"""The webhook configurations of `deploy/webhooks` with Koordinator's failure policies.

Tests that expect every request to be handled use these: with the shipped ones, a call that fails would pass.
"""

from typing import Any

from koordpy.admission.serving import failure_policy


def fail_closed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with `Fail` where the manifests allow it."""
    names = failure_policy.names(document, failure_policy.FAIL_CLOSED)
    webhooks = [
        {**webhook, "failurePolicy": "Fail"} if webhook["name"] in names else webhook
        for webhook in document["webhooks"]
    ]
    return {**document, "webhooks": webhooks}
