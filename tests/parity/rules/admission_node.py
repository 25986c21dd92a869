"""The node webhooks, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

import json
from typing import Any

from ..vectors import equal
from .admission_review import ask, chain_of

GATES = {"NodeMutatingWebhook": True, "NodeValidatingWebhook": True}


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    return ask(chain_of(case_in["path"], case_in["objects"], GATES), case_in["request"])


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare verdict and resulting object; of messages only a conflict's config key and strategies."""
    if expected.get("panic"):
        return True
    before = case_in["request"].get("object")
    return (
        ours["allowed"] is expected["allowed"]
        and ours["code"] == expected["code"]
        and ours.get("reason") == expected.get("reason")
        and equal(ours.get("object", before), expected.get("object", before))
        and ("reason" not in expected or conflict(ours) == conflict(expected))
    )


def conflict(out: dict[str, Any]) -> Any:
    """The config key and the strategies that a refusal names."""
    message = json.loads(out["message"].strip("_"))["message"]
    return message["config"], message["strategies"]
