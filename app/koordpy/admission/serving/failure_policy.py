"""The failure policies of webhook configurations: opened in an emergency, and closed again.

With `Fail`, kube-apiserver refuses what a webhook does not answer for; with `Ignore` it lets it through. The
registrar keeps the policies that it finds (`configuration.py`), so that a change here lasts.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from .configuration import TEMPLATE

FAIL_CLOSED: Final = "koordpy.dev/fail-closed"
"""The annotation of the manifests with the webhooks that may have `Fail`, as Koordinator has them."""

BREAK_GLASS: Final = "koordpy.dev/break-glass"
"""The annotation with the webhooks that had `Fail` before they were opened."""

Document = Mapping[str, Any]


def names(document: Document, annotation: str) -> list[str]:
    """Return the names of webhooks in an annotation."""
    text = (document["metadata"].get("annotations") or {}).get(annotation) or ""
    return [name for name in text.split(",") if name]


def failing(document: Document) -> list[str]:
    """Return the webhooks with `Fail`, those included that a gate removed from the list."""
    return list(
        dict.fromkeys(
            str(entry.get("name"))
            for entry in (*(document.get("webhooks") or ()), *_template(document))
            if entry.get("failurePolicy", "Fail") == "Fail"
        )
    )


def opened(document: Document) -> dict[str, Any]:
    """Return a configuration with `Ignore` everywhere, and a note of what had `Fail`."""
    before = list(dict.fromkeys([*names(document, BREAK_GLASS), *failing(document)]))
    found = _with_policies(document, lambda _: "Ignore")
    if before:
        found["metadata"]["annotations"][BREAK_GLASS] = ",".join(before)
    return found


def closed(document: Document) -> dict[str, Any]:
    """Return a configuration with the policies that it had before it was opened."""
    before = set(names(document, BREAK_GLASS))
    found = _with_policies(document, lambda name: "Fail" if name in before else None)
    found["metadata"]["annotations"].pop(BREAK_GLASS, None)
    return found


def _with_policies(document: Document, policy: Callable[[str], str | None]) -> dict[str, Any]:
    """Return a copy with other policies, in the list of webhooks and in the template; None keeps one."""

    def changed(entry: Document) -> dict[str, Any]:
        wanted = policy(str(entry.get("name")))
        return {**entry, "failurePolicy": wanted} if wanted else dict(entry)

    annotations = dict(document["metadata"].get("annotations") or {})
    template = _template(document)
    if template:
        annotations[TEMPLATE] = msgspec.json.encode([changed(entry) for entry in template]).decode()
    return {
        **document,
        "metadata": {**document["metadata"], "annotations": annotations},
        "webhooks": [changed(entry) for entry in document.get("webhooks") or ()],
    }


def _template(document: Document) -> list[dict[str, Any]]:
    """Return the entries of the template; none where it cannot be read, which the registrar reports."""
    text = (document["metadata"].get("annotations") or {}).get(TEMPLATE)
    if not text:
        return []
    try:
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.DecodeError:
        return []
