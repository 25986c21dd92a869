"""How the NUMA topology manager merges hints under a policy."""

from typing import Any

from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.policy import (
    Exclusive,
    NumaNodeStatus,
    NumaTopologyExclusive,
    NUMATopologyPolicy,
    merge_hints,
)


def run(case: dict[str, Any], tag: str | None) -> object:
    merged = merge_hints(
        NUMATopologyPolicy("" if case["policy"] == "None" else case["policy"]),
        case["numaNodes"],
        [_provider(provider) for provider in case["providers"] or ()],
        Exclusive(
            NumaTopologyExclusive(case["exclusive"]),
            [NumaNodeStatus(status) for status in case["status"] or ()],
        ),
    )
    hint = merged.hint
    return {
        "mask": None if hint.affinity is None else list(bitmask.bits(hint.affinity)),
        "preferred": hint.preferred,
        "unsatisfied": hint.unsatisfied,
        "score": hint.score,
        "admit": merged.admit,
        "reasons": sorted(merged.reasons),
    }


def _provider(document: dict[str, Any] | None) -> dict[str, list[NUMATopologyHint] | None] | None:
    if document is None:
        return None
    return {
        resource: None if hints is None else [_hint(hint) for hint in hints]
        for resource, hints in document.items()
    }


def _hint(document: dict[str, Any]) -> NUMATopologyHint:
    mask = document.get("mask")
    return NUMATopologyHint(
        None if mask is None else bitmask.of(mask),
        document.get("preferred", False),
        document.get("unsatisfied", False),
        document.get("score", 0),
    )


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours == {**expected, "reasons": sorted(expected["reasons"] or ())})
