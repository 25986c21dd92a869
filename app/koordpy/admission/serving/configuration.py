"""What a webhook configuration must say for kube-apiserver to reach the webhooks that are served.

The list of webhooks as it was found first is kept as JSON in the annotation `template`: what a gate took out
comes back from there when the gate is on again. Everything that an entry says beyond address and authority
(policies, selectors, timeouts) is the template's.

Source: Koordinator, `pkg/webhook/util/configuration/configuration.go`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

TEMPLATE: Final = "template"
"""The annotation with the pristine list; Koordinator's name."""

Document = Mapping[str, Any]


class ConfigurationError(ValueError):
    """A webhook configuration cannot be completed; the message names it and what is wrong."""


@dataclass(frozen=True)
class Target:
    """Where webhooks are served.

    `paths` are those that are; `url` is `https://host:port` where the API server shall not go through the
    service. Without `ca_bundle` (base64) the bundles that are there stay.
    """

    paths: Collection[str]
    namespace: str
    service: str
    url: str = ""
    ca_bundle: str | None = None


def completed(document: Document, target: Target) -> dict[str, Any]:
    """Return a webhook configuration as it must be; the same content when nothing is to be done.

    Raises ConfigurationError.
    """
    meta = dict(document["metadata"])
    annotations = dict(meta.get("annotations") or {})
    current = document.get("webhooks") or []
    text = annotations.get(TEMPLATE)
    if text:
        template = _parsed(text, document)
    elif not current:
        return dict(document)  # nothing to register, and nothing worth remembering
    else:
        template = current
        meta["annotations"] = {**annotations, TEMPLATE: msgspec.json.encode(current).decode()}
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


def _entry(template: Document, bundle: str | None, target: Target) -> dict[str, Any] | None:
    """Return a webhook at its address, or None for one that is not served."""
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
