"""As much of a pod as records of it need, once nothing happens to it any more.

Tenants decide how large pods are: what is remembered of many must not depend on it.
"""

from koordpy.api.core import Pod, PodSpec
from koordpy.api.meta import ObjectMeta

_DOMAIN = "koordinator.sh/"
_MOST, _LONGEST = 32, 256

POD_FACTOR = 10
"""Bytes that a decoded pod takes, with what plugins compute from it, for each byte of its JSON text."""


def remembered(pod: Pod) -> Pod:
    """Return a pod of a few kilobytes: its identity, scheduler and node, short labels of Koordinator."""
    meta, spec = pod.metadata, pod.spec
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            labels=_short(meta.labels),
            annotations=_short(meta.annotations),
        ),
        spec=PodSpec(scheduler_name=spec.scheduler_name, node_name=spec.node_name, priority=spec.priority),
    )


def _short(texts: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in texts.items():
        if _DOMAIN in key and len(key) + len(value) <= _LONGEST:
            found[key] = value
            if len(found) == _MOST:
                break
    return found
