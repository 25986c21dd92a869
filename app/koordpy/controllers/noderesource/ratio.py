"""The CPU normalization ratio in the annotation of a node, which two plugins read.

Source: Koordinator, `apis/extension/cpu_normalization.go`.
"""

from koordpy.api import extension
from koordpy.lib.go_number import parse_float

from ..slo.node_state import NodeState


class InvalidRatio(ValueError):
    """The annotation is not a number above 0."""


def normalization_of(node: NodeState) -> float | None:
    """Return the ratio, None without the annotation. Raises InvalidRatio."""
    text = (node.annotations or {}).get(extension.ANNOTATION_CPU_NORMALIZATION_RATIO)
    if text is None:
        return None
    ratio = parse_float(text)
    if ratio is None or ratio <= 0:
        name = extension.ANNOTATION_CPU_NORMALIZATION_RATIO
        raise InvalidRatio(f"annotation {name}: got {text!r}, expected a number above 0")
    return ratio
