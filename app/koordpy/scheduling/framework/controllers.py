"""The controllers that plugins provide, and which of them run: Koordinator's `--controller-plugins`.

Source: Koordinator, `pkg/scheduler/frameworkext/controllers.go`.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from koordpy.lib import supervise
from koordpy.lib.selection import is_selected
from koordpy.scheduling.interface import Controller, ControllerProvider

from .framework import Framework

log = logging.getLogger(__name__)


class PluginControllers:
    """The selected controllers of the plugins of some profiles; `run` while this process leads.

    A plugin of several profiles provides its controllers once. `selection` is scanned from left to right:
    `NAME` enables a plugin's controllers, `-NAME` disables them, `*` enables all others.
    """

    def __init__(self, frameworks: Iterable[Framework], selection: Sequence[str]) -> None:
        self.controllers: dict[str, Controller] = {}
        """By plugin and controller: `Reservation/reservationController`."""
        asked: set[str] = set()
        for framework in frameworks:
            for name, provider in framework.enabled.having(ControllerProvider):
                if name in asked:
                    continue
                asked.add(name)
                if not is_selected(name, selection):
                    log.info("the controllers of plugin %s are disabled", name)
                    continue
                for controller in provider.controllers():
                    self.controllers.setdefault(f"{name}/{controller.name}", controller)
        for item in selection:
            if item != "*" and item.removeprefix("-") not in asked:
                log.warning(
                    "controller plugins: no enabled plugin %s has controllers", item.removeprefix("-")
                )

    def __bool__(self) -> bool:
        return bool(self.controllers)

    async def run(self) -> None:
        """Run all until cancelled; one that fails is restarted without affecting the others."""
        async with asyncio.TaskGroup() as tasks:
            for name, controller in self.controllers.items():
                tasks.create_task(supervise.forever(f"controller {name}", controller.run))
