"""Why a quota keeps a pod waiting, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.scheduling.explain.cause import Cause, Certainty

from .explanation import Exceeded, QuotaExplanation, Sharing

SHOWN: Final = 3
"""Quotas and pods that are named."""


def quota_causes(pod: Pod, found: QuotaExplanation) -> Iterator[Cause]:
    """Return why the quota of a pod without a node has no room for it; nothing if it has room."""
    label = pod.metadata.labels.get(extension.LABEL_QUOTA_NAME, "")
    if label and label != found.quota:
        yield Cause(
            cause="QuotaMissing",
            certainty=Certainty.CERTAIN,
            message=f"label {extension.LABEL_QUOTA_NAME} names quota {label}, which does not exist: the pod "
            f"counts in {found.quota}",
            fix=f"create the ElasticQuota {label}, or correct the label",
        )
    if not found.exceeded:
        return
    yield Cause(
        cause="QuotaExceeded",
        certainty=Certainty.CERTAIN,
        message="; ".join(map(_exceeded, found.exceeded)),
        fix=_fix(found),
    )


def _exceeded(found: Exceeded) -> str:
    limit = {"runtime": "runtime quota", "max": "max", "min": "min for pods that cannot be preempted"}
    return (
        f"quota {found.quota} has no room for {found.resource}: {found.used} used and {found.request} "
        f"requested, {limit[found.kind]} {found.limit} ({found.short} short)"
    )


_SEVERAL = ("end", "have", "terminate")


def _fix(found: QuotaExplanation) -> str:
    """Return what would help, what is nearest first."""
    first = found.exceeded[0]
    advice = []
    if found.to_free:
        names = ", ".join(pod.pod for pod in found.to_free[:SHOWN])
        more = f" and {len(found.to_free) - SHOWN} more" if len(found.to_free) > SHOWN else ""
        end, have, terminate = ("ends", "has", "terminates") if len(found.to_free) == 1 else _SEVERAL
        they = f"{have} a lower priority"
        if all(pod.is_terminating for pod in found.to_free):
            they = f"{terminate} already"
        advice.append(f"it has room once {names}{more} {end}, which {they}")
    elif first.kind == "min":
        advice.append(
            f"raise min of {first.quota}, or let the pod be preempted (label "
            f"{extension.LABEL_QUOTA_PREEMPTIBLE})"
        )
    else:
        advice.append(f"wait until pods of {first.quota} end")
    if first.kind != "min":
        advice.append(_raising(found, first))
    return "; ".join(advice)


def _raising(found: QuotaExplanation, first: Exceeded) -> str:
    node = next(node for node in found.path if node.name == first.quota)
    own = next((one for one in node.resources if one.resource == first.resource), None)
    if own is None or first.kind == "max" or own.runtime == own.max:
        return f"or raise max of {first.quota}"
    sharing = next(
        (one for one in found.sharing if (one.parent, one.resource) == (node.parent, first.resource)), None
    )
    told = f"its max is {own.max or 'not set'}, and the runtime quota grows with what {node.parent} has left"
    others = _others(sharing, first.quota)
    return f"{told}{others}; raise its min to guarantee more"


def _others(sharing: Sharing | None, quota: str) -> str:
    borrowers = [share for share in (sharing.borrowers if sharing else []) if share.quota != quota]
    if not borrowers:
        return ""
    named = ", ".join(f"{share.quota} by {share.amount}" for share in borrowers[:SHOWN])
    more = ", ..." if len(borrowers) > SHOWN else ""
    return f" (over their min: {named}{more})"
