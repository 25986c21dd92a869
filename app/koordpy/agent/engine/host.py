"""Hosts the plugins of the agent: each with a handle of its own, set up, run while enabled, and exchanged.

A plugin whose setup fails does not prevent the others: it is constructed again with backoff. When its flags,
arguments or gates change, a plugin is stopped and another one takes its place; the other plugins run on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

from koordpy.agent.interface.collector import Collector
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.node_plugin import NodePlugin
from koordpy.agent.interface.plugin import QOSPlugin
from koordpy.agent.interface.states import CallbackScope
from koordpy.api.config_model import ConfigError
from koordpy.lib.endpoint import Answer, Endpoint, Request

from .collecting import Collecting
from .plugins import Installed, declare_series, flags_of
from .supervisor import Supervisor
from .time_limit import time_limit
from .unit import CURRENT, Unit

log = logging.getLogger(__name__)

P = TypeVar("P", bound=NodePlugin)

SETUP_SECONDS: Final = 15.0
"""How long a constructor and `setup` may take each."""
STOP_SECONDS: Final = 10.0
"""How long `stop` may take."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class PluginRun:
    """One plugin in the course of time."""

    def __init__(
        self, name: str, kind: str, make: Callable[[Handle, Mapping[str, Any]], NodePlugin], handle: Handle
    ) -> None:
        self.name = name
        self._make, self._handle = make, handle
        self.unit = Unit(
            f"{kind}/{name}",
            self._work,
            clock=handle.clock,
            sleep=handle.sleep,
            not_ready=self._not_ready,
            replace=self._replace,
        )
        self.plugin: NodePlugin | None = None
        self.task: asyncio.Task[None] | None = None
        self._args: Mapping[str, Any] = {}
        self._callbacks: CallbackScope | None = None
        self._collecting: Collecting | None = None
        self._is_set_up = False

    def construct(self, args: Mapping[str, Any], handle: Handle) -> None:
        """Construct the plugin with its arguments. Raises ConfigError, MetricError."""
        callbacks = CallbackScope(handle.states)
        with time_limit(SETUP_SECONDS):
            plugin = self._make(replace(handle, sleep=self.unit.sleep, states=callbacks), args)
        declare_series([type(plugin)], handle.metrics)
        self.forget()
        self._callbacks, self._args, self._handle, self.plugin = callbacks, args, handle, plugin
        self.unit.package = type(plugin).__module__.rpartition(".")[0] or type(plugin).__module__
        self.unit.round_timeout = plugin.round_timeout if isinstance(plugin, QOSPlugin) else None

    def try_construct(self, args: Mapping[str, Any], handle: Handle) -> None:
        """Construct the plugin; a failure is logged and counted, and tried again when the plugin is run.

        Raises ConfigError for arguments that the plugin rejects.
        """
        self._args, self._handle = args, handle
        try:
            self.construct(args, handle)
        except Exception as error:
            if isinstance(error.__cause__, ConfigError):
                raise
            log.exception("%s cannot be created", self.unit.name)
            self.unit.failed("setup", f"cannot be created: {error}")

    def forget(self) -> None:
        """Unregister the callbacks of the plugin."""
        if self._callbacks is not None:
            self._callbacks.close()
        self.plugin, self._is_set_up, self._collecting = None, False, None

    def set_up(self) -> None:
        """Set up the plugin; a failure is logged and counted, and tried again when the plugin is run."""
        if self.plugin is None:
            return
        try:
            with time_limit(SETUP_SECONDS):
                self.plugin.setup()
            self._is_set_up = True
        except Exception as error:
            log.exception("%s: setup failed", self.unit.name)
            self.unit.failed("setup", f"setup failed: {type(error).__name__}: {error}")

    @property
    def is_enabled(self) -> bool:
        """Whether the plugin's gate is on, or whether that is not known because the plugin fails."""
        try:
            return self.plugin is None or self.plugin.is_enabled()
        except Exception as error:
            log.exception("%s: is_enabled failed", self.unit.name)
            self.unit.failed("raised", f"is_enabled raised: {type(error).__name__}: {error}")
            return False

    async def stop(self) -> None:
        """End the run, and let the plugin revert what must not be left behind."""
        was_running = self.task is not None
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None
        if was_running and isinstance(self.plugin, (Collector, QOSPlugin)):
            await self._revert(self.plugin)

    async def _revert(self, plugin: Collector | QOSPlugin) -> None:
        """Let a plugin revert or release what must not be left behind, though not for ever."""
        token = CURRENT.set(self.unit)  # if it blocks the event loop it is interrupted
        try:
            stopping = asyncio.create_task(_stop(plugin), name=f"stop {self.unit.name}")
        finally:
            CURRENT.reset(token)
        await asyncio.wait({stopping}, timeout=STOP_SECONDS)
        if not stopping.done():
            stopping.cancel()
            log.error("%s has not stopped within %g s; it is left behind", self.unit.name, STOP_SECONDS)
            self.unit.failed("hung", "did not stop")
        elif not stopping.cancelled() and (error := stopping.exception()) is not None:
            log.error("%s failed to stop", self.unit.name, exc_info=error)
            self.unit.failed("raised", f"stop raised: {type(error).__name__}: {error}")

    def _replace(self) -> None:
        """Take another plugin in the next run: what this one has piled up goes with it."""
        self._is_set_up = False
        if isinstance(self.plugin, Collector):
            try:
                self.plugin.close()
            except Exception:
                log.exception("%s: close failed", self.unit.name)

    async def _work(self) -> None:
        if not self._is_set_up:
            self.construct(self._args, self._handle)
            assert self.plugin is not None
            with time_limit(SETUP_SECONDS):
                self.plugin.setup()
            self._is_set_up = True
        plugin = self.plugin
        if plugin is not None and not plugin.is_enabled():
            await asyncio.Event().wait()
        if isinstance(plugin, Collector):
            seconds = self._handle.flags.duration(plugin.interval_flag).total_seconds()
            self._collecting = Collecting(plugin, seconds, sleep=self.unit.sleep)
            await self._collecting.run()
        elif isinstance(plugin, QOSPlugin):
            await plugin.run()

    def _not_ready(self) -> str | None:
        if self.task is None or not isinstance(self.plugin, Collector):
            return None
        return "has not measured yet" if self._collecting is None else self._collecting.not_ready()


class PluginHost:
    """All plugins of the agent: `set_up`, then `start`; `apply` changes them while they run."""

    def __init__(self, installed: Installed, args: Mapping[str, Mapping[str, Any]], handle: Handle) -> None:
        """Construct all plugins. Raises ConfigError for arguments that one of them rejects."""
        self.installed, self._args, self._handle = installed, args, handle
        installed.check(args)
        self.runs: dict[str, PluginRun] = {}
        for name, catalogue in installed:
            kind = catalogue.group.rpartition(".")[2]
            run = self.runs[name] = PluginRun(name, kind, installed.maker(name), handle)
            run.try_construct(args.get(name, {}), handle)

    def of(self, type_: type[P]) -> list[P]:
        """Return the plugins of a kind whose gate is on, by name."""
        enabled = (run.plugin for run in self.runs.values() if run.plugin is not None and run.is_enabled)
        return [plugin for plugin in enabled if isinstance(plugin, type_)]

    @property
    def plugins(self) -> list[NodePlugin]:
        """All plugins, enabled or not."""
        return [run.plugin for run in self.runs.values() if run.plugin is not None]

    @property
    def running(self) -> list[str]:
        """The names of the plugins that were started."""
        return [run.name for run in self.runs.values() if run.task is not None]

    def endpoints(self) -> dict[str, Endpoint]:
        """Return an endpoint for each plugin that has some; it answers with those that it has then."""
        return {
            f"/apis/v1/plugins/{name}/": Endpoint(partial(self._respond, name), _METHODS)
            for name, _ in self.installed
            if self.installed.type(name).endpoints is not NodePlugin.endpoints
        }

    def _respond(self, name: str, request: Request) -> Answer | Awaitable[Answer]:
        plugin = self.runs[name].plugin
        if plugin is None or not plugin.is_enabled():
            return Answer.problem(f"plugin {name} is off", HTTPStatus.SERVICE_UNAVAILABLE)
        found = {path.strip("/"): endpoint for path, endpoint in plugin.endpoints().items()}
        endpoint = found.get(request.rest.strip("/"))
        if endpoint is None:
            known = ", ".join(sorted(found)) or "none"
            raise LookupError(f"plugin {name} has no endpoint {request.rest!r}; it has: {known}")
        if ("GET" if request.method == "HEAD" else request.method) not in endpoint.methods:
            expected = ", ".join(endpoint.methods)
            problem = f"{request.path}: got {request.method}, expected {expected}"
            return Answer.problem(problem, HTTPStatus.METHOD_NOT_ALLOWED)
        return endpoint.respond(request)

    def set_up(self) -> None:
        """Set up all plugins, enabled or not."""
        for run in self.runs.values():
            run.set_up()

    def start(self, supervisor: Supervisor, *, without: tuple[type[NodePlugin], ...] = ()) -> None:
        """Start the plugins that run by themselves and whose gate is on, but for those of some types."""
        for run in self.runs.values():
            self._start(run, supervisor, without)

    def _start(self, run: PluginRun, supervisor: Supervisor, without: tuple[type[NodePlugin], ...]) -> None:
        type_ = self.installed.type(run.name)
        runs_by_itself = issubclass(type_, (Collector, QOSPlugin)) and not issubclass(type_, without)
        if runs_by_itself and run.is_enabled:
            run.task = asyncio.create_task(supervisor.keep(run.unit), name=f"keep {run.unit.name}")
        elif run.unit.problem is not None:
            supervisor.units[run.unit.name] = run.unit  # it is shown, although it does not run

    async def stop(self) -> None:
        """Stop all plugins, the last started one first."""
        for run in reversed(self.runs.values()):
            await run.stop()

    async def apply(
        self,
        args: Mapping[str, Mapping[str, Any]],
        handle: Handle,
        supervisor: Supervisor,
        *,
        without: tuple[type[NodePlugin], ...] = (),
    ) -> list[str]:
        """Exchange the plugins that a change affects; return their names.

        Raises ConfigError if one cannot be constructed; then nothing has changed.
        """
        affected = self._affected(args, handle)
        for name in affected:
            self.installed.maker(name)(
                replace(handle, states=CallbackScope(handle.states)), args.get(name, {})
            )
        self._args, self._handle = args, handle
        for name in affected:
            run = self.runs[name]
            await run.stop()
            run.unit.problem = None
            supervisor.units.pop(run.unit.name, None)
            run.try_construct(args.get(name, {}), handle)
            run.set_up()
            self._start(run, supervisor, without)
        return affected

    def _affected(self, args: Mapping[str, Mapping[str, Any]], handle: Handle) -> list[str]:
        flags = _changed(self._handle.flags.values, handle.flags.values)
        gates = _changed(dict(self._handle.gates), dict(handle.gates))
        features = {gate for type_ in self.installed.types() for gate in (type_.feature, *type_.features)}
        everyones = gates - features  # which other gates a plugin asks for is not known
        return [name for name in self.runs if self._is_affected(name, args, flags, gates, everyones)]

    def _is_affected(
        self,
        name: str,
        args: Mapping[str, Mapping[str, Any]],
        flags: set[str],
        gates: set[str],
        everyones: set[str],
    ) -> bool:
        type_ = self.installed.type(name)
        if self._args.get(name, {}) != args.get(name, {}):
            return True
        own_gates = gates.intersection((type_.feature, *type_.features))
        return bool(flags.intersection(_flags_of(type_)) or own_gates or everyones)


def _flags_of(type_: type[NodePlugin]) -> Iterator[str]:
    declared: FlagSet = flags_of([type_])
    yield from declared.values
    if issubclass(type_, Collector):
        yield type_.interval_flag


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


async def _stop(plugin: Collector | QOSPlugin) -> None:
    if isinstance(plugin, QOSPlugin):
        await plugin.stop()
    else:
        plugin.close()
