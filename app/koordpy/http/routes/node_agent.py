"""The endpoints of the node agent, without FastAPI: health, metrics, configuration, log level, stacks.

Paths and formats are those of the debug API; the paths of metrics are koordlet's (`pkg/koordlet/metrics`).
The agent adds its own (`NodeAgent.endpoints`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from koordpy.lib.endpoint import Answer, Endpoint, Request
from koordpy.lib.exposition import CONTENT_TYPE, exposition
from koordpy.lib.health import Check, Health
from koordpy.lib.profiling import stacks
from koordpy.lib.verbosity import set_verbosity

ALL: Final = ("",)

METRICS: Final = {
    "/metrics": ALL,
    "/all-metrics": ALL,
    "/internal-metrics": ("koordlet_", "koordpy_agent_"),
    "/external-metrics": ("koordlet_node_", "koordlet_container_", "koordlet_pod_", "koordlet_be_"),
}
"""Prefixes of the names of the metrics of each path."""

_HIGHEST_LEVEL: Final = 10


def endpoints(
    health: Health, configz: Callable[[], Mapping[str, Any]], own: Mapping[str, Endpoint]
) -> dict[str, Endpoint]:
    """Return all endpoints of the agent: those of every process, and its `own`."""
    found = {path: Endpoint(partial(_metrics, prefixes)) for path, prefixes in METRICS.items()}
    found |= {
        "/livez/": Endpoint(partial(_health, health, lambda: health.live)),
        "/readyz/": Endpoint(partial(_probed, health, lambda: health.ready)),
        "/healthz/": Endpoint(partial(_probed, health, lambda: {**health.live, **health.ready})),
        "/configz": Endpoint(lambda _: Answer.json(configz())),
        "/debug/flags/v": Endpoint(_verbosity, ("PUT",)),
        "/debug/pprof/stacks": Endpoint(lambda _: Answer.text(stacks())),
    }
    return {**found, **own}


def _metrics(prefixes: tuple[str, ...], _: Request) -> Answer:
    return Answer(exposition(prefixes), content_type=CONTENT_TYPE)


async def _probed(health: Health, of: Callable[[], Mapping[str, Check]], request: Request) -> Answer:
    for probe in health.probes:
        await probe()
    return _health(health, of, request)


def _health(health: Health, of: Callable[[], Mapping[str, Check]], request: Request) -> Answer:
    """Answer like Kubernetes' components: with `?verbose`, `?exclude=`, and single checks below."""
    name = request.path.strip("/").partition("/")[0]
    checks = of()
    if request.rest:
        if request.rest not in checks:
            known = ", ".join(checks)
            return Answer.text(f"no check {request.rest!r} in /{name}; there are: {known}\n", 404)
        checks = {request.rest: checks[request.rest]}
    passed, text = health.report(
        name, checks, verbose="verbose" in request.query, exclude=request.query.get("exclude", [])
    )
    return Answer.text(text, 200 if passed else 503)


def _verbosity(request: Request) -> Answer:
    """Set the log level, as koordlet's `/debug/flags/v`. Raises ValueError."""
    text = request.body.decode("utf-8", "replace").strip()
    if not text.isdecimal() or int(text[:4]) > _HIGHEST_LEVEL:
        raise ValueError(f"got {text[:40]!r}, expected a log level from 0 to {_HIGHEST_LEVEL}")
    set_verbosity(int(text))
    return Answer.text(f"successfully set klog.logging.verbosity to {int(text)}\n")
