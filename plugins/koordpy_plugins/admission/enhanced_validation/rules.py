"""Rules on the labels that pods must have, and their format in a ConfigMap.

Source: Koordinator, `pkg/webhook/pod/validating/pod_enhanced_validator.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import MALFORMED

ENABLE: Final = "enable"
RULES: Final = "rules"


@dataclass(frozen=True)
class Rule:
    """Labels that pods must have, except in the listed namespaces."""

    name: str = ""
    required_labels: tuple[str, ...] = ()
    namespace_whitelist: frozenset[str] = frozenset()

    def missing(self, metadata: ObjectMeta) -> list[str]:
        """Return the label keys that a pod lacks; the values do not matter."""
        if metadata.namespace in self.namespace_whitelist:
            return []
        return [key for key in self.required_labels if key not in metadata.labels]


def read(data: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules in a ConfigMap's data, none unless they are enabled. Raises ValueError."""
    text = data.get(RULES, "")
    rules = _rules(text) if text else ()
    return rules if data.get(ENABLE, "").strip().lower() == "true" else ()


def _rules(text: str) -> tuple[Rule, ...]:
    try:
        items = msgspec.json.decode(text, type=list[dict[str, Any] | None] | None)
    except MALFORMED as error:
        raise ValueError(f"{RULES}: {error}") from None
    return tuple(_rule(item or {}, f"{RULES}[{index}]") for index, item in enumerate(items or ()))


def _rule(item: dict[str, Any], path: str) -> Rule:
    """Parse one rule. Field names are case-insensitive; unknown fields are ignored."""
    name = ""
    lists: dict[str, tuple[str, ...]] = {"requiredlabels": (), "namespacewhitelist": ()}
    for key, value in item.items():
        member = key.lower()
        if member == "name" and value is not None:
            if not isinstance(value, str):
                raise ValueError(f"{path}.{key}: got {value!r}, expected a string")
            name = value
        elif member in lists:
            lists[member] = _texts(value, f"{path}.{key}")
    return Rule(name, lists["requiredlabels"], frozenset(lists["namespacewhitelist"]) - {""})


def _texts(value: Any, path: str) -> tuple[str, ...]:
    try:
        return tuple(item or "" for item in msgspec.convert(value, list[str | None] | None) or ())
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from None
