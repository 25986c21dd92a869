"""The webhook configurations with which kube-apiserver reaches the webhooks that are served.

The original list of webhooks is kept as JSON in the annotation `template`: a webhook that a gate removed is
restored from it when the gate is on again. Everything in an entry besides address, authority and failure
policy (selectors, timeouts) comes from the template.

The failure policy is the one that the entry has: administrators change it from Ignore to Fail when the
webhooks have proved ready, and back at once when they do not answer. The template follows it.

Source: Koordinator, `pkg/webhook/util/configuration/configuration.go`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

TEMPLATE: Final = "template"
"""The annotation with the original list; Koordinator's name."""

Document = Mapping[str, Any]


class ConfigurationError(ValueError):
    """A webhook configuration cannot be completed; the message names it and what is wrong."""


@dataclass(frozen=True)
class Target:
    """The address of the webhooks.

    `paths` are the paths that are served; `url` is `https://host:port` where the API server is not to use the
    service. Without `ca_bundle` (base64) the present bundles stay.
    """

    paths: Collection[str]
    namespace: str
    service: str
    url: str = ""
    ca_bundle: str | None = None


def completed(document: Document, target: Target) -> dict[str, Any]:
    """Return a completed webhook configuration; with equal content when it is complete already.

    Raises ConfigurationError.
    """
    meta = dict(document["metadata"])
    annotations = dict(meta.get("annotations") or {})
    current = document.get("webhooks") or []
    text = annotations.get(TEMPLATE)
    if text:
        template = _parsed(text, document)
    elif not current:
        return dict(document)  # nothing to register, and no list to keep as the template
    else:
        template = current
        meta["annotations"] = {**annotations, TEMPLATE: msgspec.json.encode(current).decode()}
    policies = {entry.get("name"): entry.get("failurePolicy") for entry in current}
    kept = [_with_policy(entry, policies.get(entry.get("name"))) for entry in template]
    if kept != template:
        template = kept
        meta["annotations"] = {**annotations, TEMPLATE: msgspec.json.encode(template).decode()}
    bundles = {entry.get("name"): (entry.get("clientConfig") or {}).get("caBundle") for entry in current}
    entries = [_entry(entry, bundles.get(entry.get("name")), target) for entry in template]
    webhooks = [entry for entry in entries if entry is not None]
    return {**document, "metadata": meta, "webhooks": webhooks}


def _parsed(text: str, document: Document) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"{document.get('kind')} {document['metadata'].get('name')}: annotation {TEMPLATE}: {error}; "
            "expected a JSON list of webhooks (without the annotation the present list becomes the template)"
        ) from None


def _with_policy(entry: dict[str, Any], policy: str | None) -> dict[str, Any]:
    return {**entry, "failurePolicy": policy} if policy else entry


def _entry(template: Document, bundle: str | None, target: Target) -> dict[str, Any] | None:
    """Return a webhook with its address, or None for one that is not served."""
    config = dict(template.get("clientConfig") or {})
    service = config.get("service")
    path = (service or {}).get("path") or urlsplit(config.get("url") or "").path
    if path not in target.paths:
        return None
    bundle = bundle if target.ca_bundle is None else target.ca_bundle
    if bundle is not None:
        config["caBundle"] = bundle
    if target.url:
        config.pop("service", None)
        config["url"] = target.url + path
    elif service is not None:
        config["service"] = {**service, "namespace": target.namespace, "name": target.service}
    return {**template, "clientConfig": config}
