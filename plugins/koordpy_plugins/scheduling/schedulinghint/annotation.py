"""The hint in a pod's annotation.

Source: Koordinator, `apis/extension/multi_scheduler.go`.
"""

from typing import Any

import msgspec

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.scheme import MALFORMED
from koordpy.scheduling.toolkit.scheduling_hint import SchedulingHintState

_KEYS = (extension.ANNOTATION_SCHEDULING_HINT, extension.DEPRECATED_ANNOTATION_SCHEDULING_HINT)


class _Hint(msgspec.Struct, rename="lower"):
    """The fields, matched without case, as in Go's decoder."""

    nodenames: tuple[str, ...] = ()
    preferrednodenames: tuple[str, ...] = ()
    extensions: dict[str, Any] = {}
    """As they are, null too: the presence of a plugin's name may already be a hint."""


def has_hint(pod: Pod) -> bool:
    """Return whether a pod has the annotation, valid or not."""
    return any(pod.metadata.annotations.get(key) for key in _KEYS)


def hint_of(pod: Pod) -> SchedulingHintState | None:
    """Return a pod's hint, None when it has none or an empty one. Raises ValueError naming the annotation.

    The current key takes precedence over the deprecated key, even if its value is invalid.
    """
    for key in _KEYS:
        text = pod.metadata.annotations.get(key)
        if text:
            try:
                return _read(text)
            except ValueError as error:
                raise ValueError(f"pod {pod.metadata.key}: annotation {key}: {error}") from None
    return None


def _read(text: str) -> SchedulingHintState:
    try:
        document = msgspec.json.decode(text)
        if document is None:
            return SchedulingHintState()
        if not isinstance(document, dict):
            raise ValueError(f"expected an object, got {text}")
        members = {name.lower(): value for name, value in document.items() if value is not None}
        hint = msgspec.convert(members, _Hint)
    except MALFORMED as error:
        raise ValueError(str(error)) from None
    return SchedulingHintState(hint.nodenames, hint.preferrednodenames, hint.extensions)
