"""The order of a gang's members, and what their annotations say.

Source: Koordinator, `apis/extension/network_topology.go`.
"""

import re
from collections.abc import Hashable, Iterable

import msgspec

from koordpy.api.core import Pod
from koordpy.api.network_topology import ANNOTATION_INDEX, ANNOTATION_SELECTOR
from koordpy.api.pod_specs import without_volume_names

_NUMBER = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_MOST_DIGITS = 19
_encode = msgspec.msgpack.Encoder().encode


def index_of(pod: Pod) -> int | None:
    """Return a pod's index, None without a valid one."""
    found = _NUMBER.fullmatch(pod.metadata.annotations.get(ANNOTATION_INDEX, ""))
    if found is None or len(found[2]) > _MOST_DIGITS:
        return None
    number = int(found[2])
    if number >= 1 << 63 or (found[1] == "-" and number):
        return None
    return number


def selector_of(pod: Pod) -> str:
    """Return the selector of a pod, empty if it has none."""
    return pod.metadata.annotations.get(ANNOTATION_SELECTOR, "")


def in_order_of_index(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by index, those without a valid one last; equal ones by name."""

    def key(pod: Pod) -> tuple[bool, int, str, str]:
        index = index_of(pod)
        return index is None, index or 0, pod.metadata.name, pod.metadata.namespace

    return sorted(pods, key=key)


def in_order_of_name(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods by name."""
    return sorted(pods, key=lambda pod: (pod.metadata.name, pod.metadata.namespace))


def likeness(pod: Pod) -> Hashable:
    """Return what plugins may read of an unbound pod, except its name and index: equal pods fit equally."""
    meta = pod.metadata
    annotations = {name: text for name, text in meta.annotations.items() if name != ANNOTATION_INDEX}
    return meta.namespace, _encode(
        (meta.labels, annotations, meta.owner_references, without_volume_names(pod.spec))
    )
