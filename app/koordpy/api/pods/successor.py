"""The pod that takes the place of an evicted one, as its controller creates it."""

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


def uid_of_successor(victim: Pod) -> str:
    """Return the UID of the hypothetical successor."""
    return f"successor-of-{victim.metadata.uid or victim.metadata.key}"


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
