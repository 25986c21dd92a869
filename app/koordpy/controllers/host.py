"""Host controllers: find them, choose those to run, set them up, keep them alive while this process leads.

A controller that raises is logged, counted, backed off and run again; it never takes the others down.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError
from koordpy.lib import entry_points, supervise
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec

from . import metrics, selection
from .gates import SPECS
from .interface import Controller, Handle

log = logging.getLogger(__name__)

GROUP: Final = "koordpy.controllers"


class Registry:
    """The controllers there are, by name, and the gates that they bring."""

    def __init__(self, types: Iterable[type[Controller]] = ()) -> None:
        self.types: dict[str, type[Controller]] = {}
        self.specs: dict[str, FeatureSpec] = dict(SPECS)
        for type_ in types:
            self.register(type_)

    @classmethod
    def installed(cls) -> "Registry":
        """Return the controllers of all installed packages. Raises ConfigError or PluginLoadError."""
        registry = cls()
        points = entry_points.find(GROUP)
        for name in points:
            loaded = entry_points.load(GROUP, name, points)
            if not (isinstance(loaded, type) and issubclass(loaded, Controller) and loaded.name == name):
                raise ConfigError(
                    f"entry point {name!r} of group {GROUP!r} is {loaded!r}: expected a class of controllers "
                    f"with name = {name!r}"
                )
            registry.register(loaded)
        return registry

    def register(self, type_: type[Controller]) -> None:
        """Add a controller. Raises ConfigError for a name that is taken, or a gate that nobody knows."""
        if type_.name in self.types:
            raise ConfigError(f"controller {type_.name!r} is registered twice")
        if type_.feature is not None and type_.feature_spec is not None:
            self.specs.setdefault(type_.feature, type_.feature_spec)
        if type_.feature is not None and type_.feature not in self.specs:
            raise ConfigError(
                f"controller {type_.name!r}: gate {type_.feature!r} is not known; set feature_spec"
            )
        self.types[type_.name] = type_

    def gates(self, settings: Mapping[str, bool] | None = None) -> FeatureGates:
        """Return the gates of all controllers, some of them set; raises FeatureGateError for unknown ones."""
        return FeatureGates(self.specs, settings)

    def build(
        self, chosen: Sequence[str], args: Mapping[str, Mapping[str, Any]], handle: Handle
    ) -> list[Controller]:
        """Make the controllers that a `--controllers` list selects and whose gates are on.

        Raises ConfigError for an unknown name, arguments of a controller that there is none, or bad ones.
        """
        for name in selection.check(chosen, self.types):
            log.warning("controller %s is not installed; the others run without it", name)
        for name in args:
            if name not in self.types:
                known = ", ".join(sorted(self.types)) or "none"
                raise ConfigError(f"args: there is no controller {name!r}; installed: {known}")
        made = []
        for name, type_ in sorted(self.types.items()):
            if not selection.is_selected(name, chosen):
                continue
            if type_.feature is not None and not handle.gates.enabled(type_.feature):
                log.info("controller %s does not run: feature gate %s is off", name, type_.feature)
                continue
            made.append(self.make(name, args.get(name, {}), handle))
        return made

    def described(self) -> str:
        """Name all controllers, with the gates that they need."""
        told = (
            name if type_.feature is None else f"{name} (feature gate {type_.feature})"
            for name, type_ in sorted(self.types.items())
        )
        return ", ".join(told) or "none"

    def make(self, name: str, args: Mapping[str, Any], handle: Handle) -> Controller:
        """Make one controller. Raises ConfigError; KeyError for a name that is not registered."""
        type_ = self.types[name]
        try:
            read = config_model.read(type_.args_type, dict(args), "args")
        except ConfigError as error:
            raise error.under(f"controller {name!r}") from None
        return type_(read, handle)


class ControllerHost:
    """Controllers at work."""

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
