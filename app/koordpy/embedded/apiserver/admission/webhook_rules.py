"""Which writes a webhook is called for.

Source: Kubernetes, `k8s.io/apiserver/pkg/admission/plugin/webhook`.
"""

from typing import Any

import msgspec

from koordpy.api import label_selector
from koordpy.api.meta import LabelSelector

from .. import expressions
from ..attributes import Attributes

Document = dict[str, Any]

_NO_LABELS: Document = {}
_EXEMPT = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def is_exempt(attrs: Attributes) -> bool:
    """Whether webhooks are skipped for a write, because they could make all writes impossible."""
    return attrs.served.group == "admissionregistration.k8s.io" and attrs.served.kind in _EXEMPT


class Matcher:
    """The writes that one webhook is called for."""

    def __init__(self, webhook: Document) -> None:
        self._rules = [_Rule(rule) for rule in webhook.get("rules") or ()]
        self._namespaces = _selector(webhook.get("namespaceSelector"))
        self._objects = _selector(webhook.get("objectSelector"))
        self.conditions = [
            (item["name"], expressions.parse(item["expression"]))
            for item in webhook.get("matchConditions") or ()
        ]

    def matches(
        self, attrs: Attributes, new: Document | None, old: Document | None, namespace_labels: Document | None
    ) -> bool:
        """Whether rules and selectors match a write. `namespace_labels` is None outside namespaces."""
        if not any(rule.matches(attrs) for rule in self._rules):
            return False
        if namespace_labels is not None and not self._namespaces.matches(namespace_labels):
            return False
        if self._objects.is_empty:
            return True
        return any(
            document is not None and self._objects.matches(_labels(document)) for document in (new, old)
        )


class _Rule:
    def __init__(self, rule: Document) -> None:
        self._operations = frozenset(rule.get("operations") or ())
        self._groups = frozenset(rule.get("apiGroups") or ())
        self._versions = frozenset(rule.get("apiVersions") or ())
        self._resources = [item.partition("/")[::2] for item in rule.get("resources") or ()]
        self._scope = rule.get("scope") or "*"

    def matches(self, attrs: Attributes) -> bool:
        served = attrs.served
        if not ("*" in self._operations or attrs.operation in self._operations):
            return False
        if not ("*" in self._groups or served.group in self._groups):
            return False
        if not ("*" in self._versions or served.version in self._versions):
            return False
        if self._scope != "*" and (self._scope == "Namespaced") != served.namespaced:
            return False
        return any(
            resource in ("*", served.plural) and subresource in ("*", attrs.subresource)
            for resource, subresource in self._resources
        )


def _selector(selector: Document | None) -> label_selector.Selector:
    return label_selector.of(msgspec.convert(selector or {}, LabelSelector))


def _labels(document: Document) -> Document:
    found: Document = document.get("metadata", {}).get("labels") or _NO_LABELS
    return found
