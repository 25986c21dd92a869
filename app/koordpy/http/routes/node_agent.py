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
from koordpy.lib.profiling import (
    DISPOSITION,
    INDEX,
    LONGEST_SECONDS,
    Profiler,
    ProfilerBusyError,
    stacks,
)
from koordpy.lib.verbosity import set_verbosity

ALL: Final = ("",)

EXTERNAL: Final = (
    "koordlet_node_resource_",
    "koordlet_node_priority_resource_reclaimable",
    "koordlet_container_resource_",
    "koordlet_container_cpi",
    "koordlet_container_psi",
    "koordlet_pod_psi",
    "koordlet_resctrl_",
)
"""Beginnings of the names of koordlet's external metrics: those about workloads, not about itself."""

METRICS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "/metrics": (ALL, ()),
    "/all-metrics": (ALL, ()),
    "/internal-metrics": (ALL, EXTERNAL),
    "/external-metrics": (EXTERNAL, ()),
}
"""What the names of the metrics of each path begin with, and what they do not."""

_PROFILE_SECONDS: Final = "30"

_HIGHEST_LEVEL: Final = 10


def endpoints(
    health: Health, configz: Callable[[], Mapping[str, Any]], own: Mapping[str, Endpoint]
) -> dict[str, Endpoint]:
    """Return all endpoints of the agent: those of every process, and its `own`."""
    found = {path: Endpoint(partial(_metrics, *part)) for path, part in METRICS.items()}
    found |= {
        "/livez/": Endpoint(partial(_health, health, lambda: health.live)),
        "/readyz/": Endpoint(partial(_probed, health, lambda: health.ready)),
        "/healthz/": Endpoint(partial(_probed, health, lambda: {**health.live, **health.ready})),
        "/configz": Endpoint(lambda _: Answer.json(configz())),
        "/debug/flags/v": Endpoint(_verbosity, ("PUT",)),
        "/debug/pprof/": Endpoint(partial(_pprof, Profiler())),
    }
    return {**found, **own}


def _metrics(prefixes: tuple[str, ...], without: tuple[str, ...], _: Request) -> Answer:
    return Answer(exposition(prefixes, without), content_type=CONTENT_TYPE)


async def _pprof(profiler: Profiler, request: Request) -> Answer:
    """Answer what `/debug/pprof` of the debug API answers. Raises LookupError or ValueError."""
    if request.rest == "":
        return Answer.text(INDEX)
    if request.rest == "stacks":
        return Answer.text(stacks())
    if request.rest != "profile":
        raise LookupError(f"there is no {request.path}; there are profile and stacks")
    text = request.value("seconds", _PROFILE_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise ValueError(f"seconds: got {text[:40]!r}, expected a number up to {LONGEST_SECONDS}")
    try:
        content = await profiler.profile(seconds)
    except ProfilerBusyError as error:
        return Answer.problem(str(error), 409)
    return Answer(content, content_type="application/octet-stream", headers=DISPOSITION)


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
