"""Request bodies other than an object's own document."""

from collections.abc import Mapping
from typing import Any

import msgspec

from koordpy.api.core import Pod


def binding(pod: Pod, node_name: str, annotations: Mapping[str, str] | None) -> bytes:
    """Return the Binding that `Client.bind` sends."""
    meta: dict[str, Any] = {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "uid": pod.metadata.uid,
    }
    if annotations:
        meta["annotations"] = annotations
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
    )


def delete_options(
    uid: str,
    resource_version: str,
    grace_period_seconds: int | None,
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return DeleteOptions with preconditions for what is given.

    `base` are further options (`metav1.DeleteOptions`); what they say themselves stays.
    """
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    for key, value in (base or {}).items():
        if value not in (None, ""):
            options[key] = value
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    given = {key: value for key, value in preconditions.items() if value}
    given |= {key: value for key, value in (options.get("preconditions") or {}).items() if value}
    if given:
        options["preconditions"] = given
    if grace_period_seconds is not None:
        options.setdefault("gracePeriodSeconds", grace_period_seconds)
    return options
