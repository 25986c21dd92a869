"""Whether the SLO controllers can work: slo-controller-config, reports of nodes, pods without colocation."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from koordpy.api import extension
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.decoding import DecodeError
from koordpy.api.koordinator import NodeMetric
from koordpy.api.slo import config
from koordpy.api.slo.colocation_config import ColocationConfig, InvalidStrategy
from koordpy.cluster.errors import NotFound
from koordpy.controllers.noderesource.toolkit import is_stale
from koordpy.features.feature import Part
from koordpy.lib.counting import are, counted, have

from .finding import Area, Finding
from .installation import Installation

AREA = Area("colocation")

_CONTROLLERS: Final = {"nodemetric", "noderesource", "nodeslo"}
_SECTIONS: Final[tuple[config.Section[Any], ...]] = (
    config.THRESHOLD,
    config.RESOURCE_QOS,
    config.CPU_BURST,
    config.SYSTEM,
    config.HOST_APPLICATION,
    config.CPU_NORMALIZATION,
    config.RESOURCE_AMPLIFICATION,
)
_MOST_NAMES: Final = 5


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check the configuration, then what depends on it, where the controllers are enabled."""
    enabled = {feature.name for feature in installation.features if feature.part is Part.CONTROLLERS}
    if not enabled & _CONTROLLERS:
        none = f"no controller of {', '.join(sorted(_CONTROLLERS))} is enabled"
        yield AREA.skipped(installation.unchecked(Part.CONTROLLERS) or none)
        return
    settings = installation.settings.worker.controllers
    place = f"{settings.config_namespace}/{settings.slo_config_name}"
    try:
        found = await installation.client.get(ConfigMap, settings.config_namespace, settings.slo_config_name)
        data = found.data
    except NotFound:
        data = {}
        yield AREA.note(place, "does not exist: colocation is off", "create it with a colocation-config")
    for finding in _sections(place, data):
        yield finding
    try:
        text = data.get(config.COLOCATION.key, "")
        colocation = ColocationConfig.read(text) if text else ColocationConfig()
    except (DecodeError, InvalidStrategy) as error:
        yield AREA.problem(
            place,
            f"{config.COLOCATION.key}: {error}; after a restart nothing is reconciled",
            "correct the section; `koordpy colocate explain NODE` shows what is computed",
        )
        return
    if not colocation.cluster.enable:
        async for finding in _without(installation, place):
            yield finding
    else:
        async for finding in _reports(installation, colocation):
            yield finding


def _sections(place: str, data: dict[str, str]) -> Iterator[Finding]:
    for section in _SECTIONS:
        text = data.get(section.key)
        if text is None:
            continue
        try:
            section.read(text)
        except DecodeError as error:
            yield AREA.problem(
                place, f"{section.key}: {error}; its former contents stay in force", "correct the section"
            )
        else:
            yield AREA.ok(f"{place} {section.key}", "can be read")


async def _without(installation: Installation, place: str) -> AsyncIterator[Finding]:
    """Report best-effort pods in a cluster without colocation."""
    pods = await installation.client.list_all(Pod, label_selector=f"{extension.LABEL_POD_QOS}=BE")
    if pods:
        yield AREA.warning(
            place,
            f"colocation is off, though {counted(len(pods), 'pod')} {are(len(pods))} best-effort (the first: "
            f"{pods[0].metadata.key}): nodes have no batch resources for them",
            'set "enable": true in colocation-config',
        )
    else:
        yield AREA.ok(place, "colocation is off, and no pod needs it")


async def _reports(installation: Installation, colocation: ColocationConfig) -> AsyncIterator[Finding]:
    """Report nodes whose NodeMetric is missing or too old, which get no batch and mid resources."""
    metrics = {item.metadata.name: item for item in await installation.client.list_all(NodeMetric)}
    now, stale, nodes = installation.clock.now(), [], 0
    for node in await installation.client.list_all(Node):
        meta = node.metadata
        strategy = colocation.strategy_for(meta.labels, meta.annotations)
        if not colocation.is_enabled(strategy):
            continue
        nodes += 1
        if is_stale(strategy, metrics.get(meta.name) or NodeMetric(), now):
            stale.append(meta.name)
    if stale:
        names = ", ".join(sorted(stale)[:_MOST_NAMES]) + (", ..." if len(stale) > _MOST_NAMES else "")
        yield AREA.problem(
            "NodeMetrics",
            f"{len(stale)} of {counted(nodes, 'node')} with colocation {have(len(stale))} no fresh report "
            f"and so no batch and mid resources: {names}",
            "run the node agent (koordpy agent, or koordlet) on them, and look into its log",
        )
    else:
        yield AREA.ok("NodeMetrics", f"{counted(nodes, 'node')} with colocation {have(nodes)} fresh reports")
