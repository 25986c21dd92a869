"""Tests that hand something out twice, or over-commit a node, on purpose: the only ones that may end so.

The key is a test module, or a test in it; the value says what is handed out twice, and why that is no
mistake. What such a test leaves on a control plane that lives on is known from then on; what later tests add
is not.
"""

from collections.abc import Mapping
from typing import Final

DIRTY: Final[Mapping[str, str]] = {
    "tests/e2e/test_audited_planes.py::test_one_that_is_dirty_on_purpose_fails_none": (
        "that the books of such a control plane may be dirty is what is tested"
    ),
    "tests/faults/test_claimed_cpus.py::test_claims_of_pods_that_no_scheduler_placed_break_nothing": (
        "pods that claim the same CPUs without a scheduler are what is tested"
    ),
    "tests/faults/test_failover.py::test_without_the_fence_something_is_allocated_twice": (
        "that something is allocated twice without the fence between replicas is what is tested"
    ),
    "tests/integration/audit/test_audit.py": "what the audit finds in dirty books is what is tested",
}


def why_dirty(nodeid: str) -> str:
    """Return why the books of a test may be dirty at its end; empty if they may not."""
    module, _, test = nodeid.partition("::")
    return DIRTY.get(f"{module}::{test.partition('[')[0]}", "") or DIRTY.get(module, "")
