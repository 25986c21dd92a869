"""The rules of Mutating- and ValidatingWebhookConfigurations."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from koordpy.api import label_selector
from koordpy.api.field_cause import Cause, duplicate, invalid_value, required, unsupported
from koordpy.api.meta import LabelSelector

from .. import expressions
from ..metadata import dns_subdomain
from .strategy import Strategy

Document = dict[str, Any]


class ConfigurationStrategy(Strategy):
    """The rules of Mutating- and ValidatingWebhookConfigurations."""

    counts_generation = True
    unconditional_update = False

    def __init__(self, mutating: bool) -> None:
        self._mutating = mutating

    def default(self, document: Document) -> None:
        """Set the defaults of every webhook."""
        for webhook in document.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                webhook.setdefault("reinvocationPolicy", "Never")
            if service := (webhook.get("clientConfig") or {}).get("service"):
                service.setdefault("port", 443)
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")

    def validate(self, document: Document) -> Iterable[Cause]:
        """Return the errors in the webhooks."""
        seen: set[str] = set()
        for index, webhook in enumerate(document.get("webhooks") or ()):
            at, name = f"webhooks[{index}]", webhook.get("name", "")
            if name in seen:
                yield duplicate(f"{at}.name", name)
            seen.add(name)
            yield from _validate_webhook(webhook, at, self._mutating)


def _validate_webhook(webhook: Document, at: str, mutating: bool) -> Iterator[Cause]:
    name = webhook.get("name", "")
    if not name:
        yield required(f"{at}.name")
    elif problem := dns_subdomain(name):
        yield invalid_value(f"{at}.name", name, problem)
    elif name.count(".") < 2:
        yield invalid_value(
            f"{at}.name", name, "should be a domain with at least three segments separated by dots"
        )
    versions = webhook.get("admissionReviewVersions") or []
    if not versions:
        told = "must specify one of v1, v1beta1"
        yield required(f"{at}.admissionReviewVersions", told)
    elif not set(versions) & {"v1", "v1beta1"}:
        told = "must include at least one of v1, v1beta1"
        yield invalid_value(f"{at}.admissionReviewVersions", versions, told)
    effects = webhook.get("sideEffects")
    if effects is None:
        yield required(f"{at}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield unsupported(f"{at}.sideEffects", effects, ("None", "NoneOnDryRun"))
    closed = [
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
    ]
    if mutating:
        closed.append(("reinvocationPolicy", ("IfNeeded", "Never")))
    for field, values in closed:
        if webhook.get(field) not in values:
            yield unsupported(f"{at}.{field}", webhook.get(field, ""), values)
    seconds = webhook.get("timeoutSeconds", 10)
    if not isinstance(seconds, int) or not 1 <= seconds <= 30:
        told = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{at}.timeoutSeconds", seconds, told)
    for field in ("namespaceSelector", "objectSelector"):
        try:
            label_selector.of(msgspec.convert(webhook.get(field) or {}, LabelSelector))
        except (label_selector.SelectorError, msgspec.ValidationError) as error:
            yield invalid_value(f"{at}.{field}", webhook.get(field), str(error))
    yield from _validate_client(webhook.get("clientConfig") or {}, f"{at}.clientConfig")
    for index, rule in enumerate(webhook.get("rules") or ()):
        for field in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(field):
                yield required(f"{at}.rules[{index}].{field}")
    yield from _validate_conditions(webhook.get("matchConditions") or [], f"{at}.matchConditions")


def _validate_client(client: Document, at: str) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(at, "exactly one of url or service is required")
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme != "https":
            told = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            yield invalid_value(f"{at}.url", parts.scheme, told)
        elif not parts.hostname:
            yield invalid_value(
                f"{at}.url", url, "host must be specified; desired format: https://host[/path]"
            )
        elif parts.query or parts.fragment or parts.username is not None:
            told = "query parameters, fragments and user information are not permitted in the URL"
            yield invalid_value(f"{at}.url", url, told)
    if service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield required(f"{at}.service.{field}")
    if bundle := client.get("caBundle"):
        try:
            text = base64.b64decode(bundle, validate=True)
        except (binascii.Error, ValueError):
            yield invalid_value(f"{at}.caBundle", "<bundle>", "must be base64")
        else:
            if not re.search(rb"-----BEGIN CERTIFICATE-----", text):
                yield invalid_value(f"{at}.caBundle", "<bundle>", "unable to load root certificates")


def _validate_conditions(conditions: list[Document], at: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name, text = condition.get("name", ""), condition.get("expression", "")
        if not name:
            yield required(f"{at}[{index}].name")
        if name in seen:
            yield duplicate(f"{at}[{index}].name", name)
        seen.add(name)
        if not text.strip():
            yield required(f"{at}[{index}].expression")
            continue
        try:
            expressions.parse(text)
        except expressions.ExpressionError as error:
            yield invalid_value(f"{at}[{index}].expression", text, str(error))
