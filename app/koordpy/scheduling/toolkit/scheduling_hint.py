"""Hints about the nodes to try in an attempt: written by SchedulingHint or a batch, read by any plugin.

Source: Koordinator, `pkg/scheduler/frameworkext/hinter`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from koordpy.scheduling.interface.cycle_state import StateKey


@dataclass(frozen=True, slots=True)
class SchedulingHintState:
    """The nodes that an attempt is bound to or prefers, and notes for single plugins."""

    pre_filter_nodes: tuple[str, ...] = ()
    """The only nodes to try; empty means any."""
    preferred_nodes: tuple[str, ...] = ()
    """Nodes to try first, best first."""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """Further hints by plugin name; the presence of a name may already be a hint."""


SCHEDULING_HINT: StateKey[SchedulingHintState] = StateKey("SchedulingHintState")
