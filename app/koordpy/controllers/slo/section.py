"""A section of slo-controller-config for one plugin: a strategy of the cluster, and those of nodes over it.

Source: Koordinator, `configmap_event_handler.go` of the plugins CPUNormalization and ResourceAmplification.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from koordpy.api.decoding import DecodeError
from koordpy.api.slo.config import Section
from koordpy.api.slo.rendering import Strategies, merged
from koordpy.api.slo.strategy import Strategy

from .config_source import Parsed

S = TypeVar("S", bound=Strategy)


def reader(
    section: Section[S], default: S, reason: str, described: str
) -> Callable[[Mapping[str, str] | None, Strategies[S]], Parsed[Strategies[S]]]:
    """Return what reads a section. Without the key the default holds; what cannot be read is not used.

    `reason` and `described` are for the event: its reason, and what failed to be unmarshalled.
    """

    def read(data: Mapping[str, str] | None, known: Strategies[S]) -> Parsed[Strategies[S]]:
        text = (data or {}).get(section.key)
        if text is None:
            return Parsed(Strategies(default))
        try:
            return Parsed(merged(default, section.read(text)))
        except DecodeError as error:
            failure = (reason, f"failed to unmarshal {described}, err: {error}")
            return Parsed(None, is_faulty=True, failures=(failure,))

    return read
