"""Successors of a round's victims, and which pods a scheduler treats alike."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from koordpy.api.core import Pod
from koordpy.api.pods.successor import successor_of, uid_of_successor

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


def together(pods: Sequence[Pod], victims: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods of a node, and the successors of victims that are expected there, each once."""
    if not victims:
        return pods
    known = {each.metadata.uid for each in pods}
    return [*pods, *(successor_of(each) for each in victims if uid_of_successor(each) not in known)]
