"""The ConfigMap webhook, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

import json
from typing import Any

from .admission_review import ask, chain_of

GATES = {"ConfigMapValidatingWebhook": True}


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    args = {"nodeStrategyNameNeedCheck": case_in["nodeStrategyNameNeedCheck"] == "true"}
    out = ask(chain_of(case_in["path"], case_in["objects"], GATES, args), case_in["request"])
    if out.get("reason") == "ConfigParamInvalid":
        message = json.loads(out["message"].strip("_"))["message"]
        if isinstance(message, dict):
            out["fields"] = sorted(message)
    return out


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare verdict, reason and fields, and the message where it quotes no parse error."""
    if expected.get("panic"):
        return True
    return all(
        ours.get(name) == expected.get(name) for name in ("allowed", "code", "reason", "fields")
    ) and comparable(ours) == comparable(expected)


def comparable(out: dict[str, Any]) -> Any:
    """The part of a message that does not depend on the texts of a parser."""
    message = out.get("message", "")
    reason = out.get("reason")
    if reason == "ParseConfigFail":
        return ""
    if reason == "ExistNodeConfict":
        return json.loads(message.strip("_"))["message"]["config"]
    if reason is None and "bandwidth" not in message and "only one type" not in message:
        return message.split(': Invalid value: "')[0] if ": Invalid value: " in message else ""
    return message.split(" err: ")[0]
