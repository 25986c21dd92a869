"""Limits of the descheduler as sequences of events: of a cycle, of objects, of the rate of evictions."""

from datetime import UTC, datetime
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.lib.clock import FakeClock
from koordpy_plugins.descheduling.migrationcontroller.args import MigrationControllerArgs
from koordpy_plugins.descheduling.migrationcontroller.eviction_rate import eviction_rate
from koordpy_plugins.descheduling.migrationcontroller.object_limiter import ObjectLimiters

START = datetime(2024, 1, 1, tzinfo=UTC)


def run(case: dict[str, Any], tag: str | None) -> object:
    match case["kind"]:
        case "cycle":
            return run_cycle(case)
        case "object":
            return run_objects(case)
        case "qps":
            return run_rate(case)
        case kind:
            raise ValueError(f"unknown kind {kind!r}")


def run_objects(case: dict[str, Any]) -> object:
    clock, replicas = FakeClock(START), [0]
    args = MigrationControllerArgs.model_validate(case["args"])

    def expected_scale(pod: Pod) -> int:
        if replicas[0] is None:
            raise ValueError("the workload cannot be found")
        return replicas[0]

    limiters = ObjectLimiters(args, expected_scale, clock)
    results: list[bool | None] = []
    for event in case["events"]:
        clock.advance(event["at"] / 1000 - clock.monotonic())
        pod = decode(Pod, event["pod"])
        if event["op"] == "check":
            results.append(limiters.exceeded(pod))
        else:
            replicas[0] = event.get("replicas", 0)
            limiters.track(pod)
            results.append(None)
    return {"results": results}


def run_rate(case: dict[str, Any]) -> object:
    clock = FakeClock(START)
    args = MigrationControllerArgs.model_validate(case["args"])
    bucket = eviction_rate(args, clock)
    results = []
    for event in case["events"]:
        clock.advance(event["at"] / 1000 - clock.monotonic())
        results.append(bucket.take())
    return {"results": results}


def run_cycle(case: dict[str, Any]) -> object:
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
