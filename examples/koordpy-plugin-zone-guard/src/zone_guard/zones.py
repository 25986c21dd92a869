"""How zones are written on pods and nodes."""

from collections.abc import Iterable, Mapping

ANNOTATION = "zone-guard.example.com/zones"
"""On a pod: the only zones that it may run in, separated by commas."""

NODE_LABEL = "topology.kubernetes.io/zone"


def read(annotations: Mapping[str, str]) -> frozenset[str] | None:
    """Return the zones that a pod may run in, None when it may run anywhere."""
    text = annotations.get(ANNOTATION)
    if text is None:
        return None
    return frozenset(zone.strip() for zone in text.split(",") if zone.strip())


def write(zones: Iterable[str]) -> str:
    """Return the annotation's text."""
    return ",".join(sorted(zones))
