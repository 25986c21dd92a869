"""Why a pod fits nowhere, in kube-scheduler's words: what users read in events and conditions.

Source: Kubernetes, `FitError` in `pkg/scheduler/framework/types.go`.
"""

from collections.abc import Mapping


def fit_error(nodes: int, reasons: Mapping[str, int], *, pre_filter: str = "", post_filter: str = "") -> str:
    """Return the text about so many nodes; `reasons` counts the nodes refused for each reason.

    What PreFilter said (`pre_filter`) takes the place of the reasons; `post_filter` comes last.
    """
    text = f"0/{nodes} nodes are available:"
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    if pre_filter:
        text += f" {pre_filter}."
    elif counted:
        text += f" {counted}."
    if post_filter:
        text += f" {post_filter}"
    return text
