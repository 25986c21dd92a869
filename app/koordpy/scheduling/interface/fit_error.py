"""Why a pod fits nowhere, in kube-scheduler's words: what users read in events and conditions.

Source: Kubernetes, `FitError` in `pkg/scheduler/framework/types.go`.
"""

from collections.abc import Mapping
from typing import Final

from koordpy.lib.cut import cut

_LONGEST: Final = 16 << 10
"""Characters of all reasons: every node may have others, and pods of a group are told for every node."""


def fit_error(nodes: int, reasons: Mapping[str, int], *, pre_filter: str = "", post_filter: str = "") -> str:
    """Return the message for `nodes` nodes; `reasons` counts the nodes rejected for each reason.

    PreFilter's message (`pre_filter`) replaces the reasons, which are cut after 16 KiB; `post_filter` comes
    last.
    """
    text = f"0/{nodes} nodes are available:"
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    if pre_filter:
        text += f" {pre_filter}."
    elif counted:
        text += f" {cut(counted, _LONGEST)}."
    if post_filter:
        text += f" {post_filter}"
    return text
