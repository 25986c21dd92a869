"""The CPU normalization ratio in the annotation of a node, which two plugins read.

Source: Koordinator, `apis/extension/cpu_normalization.go`.
"""

from typing import Final

from koordpy.api import extension
from koordpy.lib.go_number import parse_float

from ..slo.node_state import NodeState

_OFF: Final = "1.00"


def parse(text: str) -> float | None:
    """Return the number in the text of a ratio, None if it is none."""
    return 1.0 if text == _OFF else parse_float(text)


class InvalidRatio(ValueError):
    """The annotation is not a number above 0."""


def normalization_of(node: NodeState) -> float | None:
    """Return the ratio, None without the annotation. Raises InvalidRatio."""
    text = (node.annotations or {}).get(extension.ANNOTATION_CPU_NORMALIZATION_RATIO)
    if text is None:
        return None
    ratio = parse(text)
    if ratio is None or ratio <= 0:
        name = extension.ANNOTATION_CPU_NORMALIZATION_RATIO
        raise InvalidRatio(f"annotation {name}: got {text!r}, expected a number above 0")
    return ratio
