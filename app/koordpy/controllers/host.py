"""Hosts controllers: finds, selects and sets them up, and keeps them running while this process leads.

A controller that raises is logged, counted and restarted with backoff; the others are not affected.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from koordpy.api.catalogue import Catalogue
from koordpy.lib import supervise
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec

from . import metrics, selection
from .interface import Controller, Handle
from .noderesource import catalogue as noderesources

log = logging.getLogger(__name__)

GROUP: Final = "koordpy.controllers"
_ARGS: Final = "worker.controllers.args"


def installed() -> Catalogue[Controller]:
    """Return the installed controllers. Raises DuplicateName."""
    return Catalogue(GROUP, Controller)  # type: ignore[type-abstract]


def gate_specs(catalogue: Catalogue[Controller]) -> dict[str, FeatureSpec]:
    """Return the gates of all controllers, and of the plugins of noderesource. Raises PluginError."""
    return noderesources.installed().feature_gates(catalogue.feature_gates({}))


def feature_gates(
    catalogue: Catalogue[Controller], settings: Mapping[str, bool] | None = None
) -> FeatureGates:
    """Return these gates, some of them set. Raises PluginError, FeatureGateError."""
    return FeatureGates(gate_specs(catalogue), settings)


def build(
    catalogue: Catalogue[Controller],
    chosen: Sequence[str],
    args: Mapping[str, Mapping[str, Any]],
    handle: Handle,
) -> list[Controller]:
    """Create the controllers that a `--controllers` list selects and whose gates are on.

    Raises ConfigError for a name that does not exist, in the list or in `args`, and for wrong arguments.
    """
    for name in selection.check(chosen, catalogue):
        log.warning("controller %s is not installed; the others run without it", name)
    read = {
        name: catalogue.load(name, _ARGS).read_args(dict(given), f"{_ARGS}.{name}")
        for name, given in args.items()
    }
    made = []
    for name in catalogue:
        if not selection.is_selected(name, chosen):
            continue
        type_ = catalogue[name]
        if type_.feature is not None and not handle.gates.enabled(type_.feature):
            log.info("controller %s does not run: feature gate %s is off", name, type_.feature)
            continue
        path = f"{_ARGS}.{name}"
        made.append(catalogue.make(name, read.get(name) or type_.read_args(None, path), handle, path))
    return made


def described(catalogue: Catalogue[Controller]) -> str:
    """List all controllers, with the gates that they need."""
    names = (
        name if type_.feature is None else f"{name} (feature gate {type_.feature})"
        for name, type_ in catalogue.items()
    )
    return ", ".join(names) or "none"


class ControllerHost:
    """Running controllers."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self.controllers = tuple(controllers)

    def setup(self) -> None:
        """Set up every controller, before anything of the cluster is listed."""
        for controller in self.controllers:
            controller.setup()

    async def run(self) -> None:
        """Run every controller until cancelled."""
        metrics.IS_LEADER.set(1)
        log.info("controllers running: %s", ", ".join(item.name for item in self.controllers) or "none")
        try:
            async with asyncio.TaskGroup() as tasks:
                for controller in self.controllers:
                    tasks.create_task(supervise.forever(f"controller {controller.name}", controller.run))
        finally:
            metrics.IS_LEADER.set(0)
