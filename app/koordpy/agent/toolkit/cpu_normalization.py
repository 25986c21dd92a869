"""The CPU normalization ratio of a node: how much faster its CPUs are than the ones that requests mean."""

from koordpy.api.core import Node
from koordpy.api.extension import ANNOTATION_CPU_NORMALIZATION_RATIO
from koordpy.lib import go_float

OFF = -1.0
"""The ratio of a node without the annotation."""

EPSILON = 0.01
"""Smaller changes of a ratio are ignored."""


def ratio_of(node: Node) -> float:
    """Return the ratio in a node's annotation, `OFF` if it has none. Raises ValueError."""
    text = node.metadata.annotations.get(ANNOTATION_CPU_NORMALIZATION_RATIO)
    if text is None:
        return OFF
    try:
        ratio = go_float.parse(text)
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_CPU_NORMALIZATION_RATIO}: {error}") from None
    if ratio <= 0:
        raise ValueError(
            f"annotation {ANNOTATION_CPU_NORMALIZATION_RATIO}: got {text!r}, expected more than 0"
        )
    return ratio
