"""The CPU normalization ratio of a node: how much faster its CPUs are than the ones that requests mean."""

from koordpy.api.core import Node
from koordpy.api.extension import ANNOTATION_CPU_NORMALIZATION_RATIO
from koordpy.lib.go_number import parse_float

OFF = -1.0
"""The ratio of a node without the annotation."""

EPSILON = 0.01
"""Smaller changes of a ratio are ignored."""


def ratio_of(node: Node) -> float:
    """Return the ratio in a node's annotation, `OFF` if it has none. Raises ValueError."""
    text = node.metadata.annotations.get(ANNOTATION_CPU_NORMALIZATION_RATIO)
    if text is None:
        return OFF
    ratio = parse_float(text)
    if ratio is None or ratio <= 0:
        raise ValueError(
            f"annotation {ANNOTATION_CPU_NORMALIZATION_RATIO}: got {text[:80]!r}, expected a number above 0"
        )
    return ratio
