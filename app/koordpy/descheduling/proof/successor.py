"""The pod that takes the place of an evicted one, as its controller creates it."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from koordpy.api import extension
from koordpy.api.core import Pod, PodStatus

_ALLOCATED = frozenset(
    {
        extension.ANNOTATION_DEVICE_ALLOCATED,
        extension.ANNOTATION_RESERVATION_ALLOCATED,
        extension.ANNOTATION_RESOURCE_STATUS,
    }
)
"""Annotations with which a scheduler records what it allocated."""


_GENERATED: Final = re.compile(rb"kube-api-access-[a-z0-9]{5}\b")
"""The name of the volume that the API server adds to every pod."""


def kind_of(pod: Pod) -> bytes:
    """Return a digest that is equal for pods that a scheduler treats alike.

    Those of one namespace with equal labels and specs, as pods of one template: apart from their nodes, and
    from what the API server generates.
    """
    meta = pod.metadata
    text = msgspec.json.encode((meta.namespace, sorted(meta.labels.items()), replace(pod.spec, node_name="")))
    return blake2b(_GENERATED.sub(b"", text), digest_size=16).digest()


def uid_of_successor(victim: Pod) -> str:
    """Return the UID of the hypothetical successor."""
    return f"successor-of-{victim.metadata.uid}"


def successor_of(victim: Pod) -> Pod:
    """Return a pod like the victim that has not been scheduled yet.

    It keeps the name, by which plugins find the victim's usage; its UID is another.
    """
    meta = victim.metadata
    annotations = {name: value for name, value in meta.annotations.items() if name not in _ALLOCATED}
    return replace(
        victim,
        metadata=replace(
            meta,
            uid=uid_of_successor(victim),
            resource_version="",
            creation_timestamp=None,
            deletion_timestamp=None,
            deletion_grace_period_seconds=None,
            annotations=annotations,
            finalizers=[],
        ),
        spec=replace(victim.spec, node_name=""),
        status=PodStatus(),
    )


def together(pods: Sequence[Pod], victims: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods of a node, and the successors of victims that are expected there, each once."""
    if not victims:
        return pods
    known = {each.metadata.uid for each in pods}
    return [*pods, *(successor_of(each) for each in victims if uid_of_successor(each) not in known)]
