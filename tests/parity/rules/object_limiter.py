"""Limits of the descheduler as sequences of events: those of one cycle."""

from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.descheduling.engine.limiter import EvictionLimiter


def accepts(tag: str | None, case: dict[str, Any]) -> bool:
    return bool(case["kind"] == "cycle")


def run(case: dict[str, Any], tag: str | None) -> object:
    limits = case["args"]
    limiter = EvictionLimiter(
        limits.get("maxNoOfPodsToEvictPerNode"),
        limits.get("maxNoOfPodsToEvictPerNamespace"),
        limits.get("maxNoOfPodsToEvictTotal"),
    )
    return {"results": [answer(limiter, event) for event in case["events"]]}


def answer(limiter: EvictionLimiter, event: dict[str, Any]) -> object:
    match event["op"]:
        case "allow":
            return limiter.allow_evict(decode(Pod, event["pod"]))
        case "done":
            limiter.done(decode(Pod, event["pod"]))
            return None
        case "reset":
            limiter.reset()
            return None
        case "nodeLimitExceeded":
            return limiter.node_limit_exceeded(event["node"])
        case "namespaceLimitExceeded":
            return limiter.namespace_limit_exceeded(event["namespace"])
        case "counts":
            node, namespace = event["node"], event["namespace"]
            return [
                limiter.node_evicted(node),
                limiter.namespace_evicted(namespace),
                limiter.total_evicted,
            ]
        case op:
            raise ValueError(f"unknown op {op!r}")
