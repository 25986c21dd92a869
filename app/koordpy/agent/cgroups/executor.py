"""The one place that writes cgroup files and other kernel files.

Strategies repeatedly request values; the executor validates them, writes only changes, and can update a tree
of directories in an order in which no child ever exceeds its parent (Koordinator:
pkg/koordlet/resourceexecutor).

What was requested before is not looked at again for `CHECK_SECONDS`; then the file is read, and a value that
somebody else wrote in the meantime is replaced.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from time import perf_counter
from typing import Final

from prometheus_client import Histogram

from koordpy.agent.cgroups import values
from koordpy.agent.cgroups.changes import Changes, Key
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Base, Kind, Resource
from koordpy.agent.cgroups.writer import UPDATES, LeftAloneError, Writer
from koordpy.agent.interface.cgroups import CgroupError, UnsupportedError, Update
from koordpy.lib import cpuset
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

DURATION = Histogram(
    "koordlet_resource_update_duration_milliseconds",
    "Time of an update of a resource, such as a cgroup file.",
    ["type", "status"],
    buckets=[0.01 * 4**i for i in range(8)],
)

CACHE_TTL: Final = timedelta(minutes=2)
CHECK_SECONDS: Final = 5.0
"""The age at which a requested value is compared with the file again."""
_PAUSE_SECONDS: Final = 1.0
"""How often it is looked whether what is paused is enabled again."""


@dataclass(slots=True)
class _Cached:
    value: str
    at: float
    checked: float


class Executor:
    """Writes files, with a cache of requested values.

    `force_update` is the age in seconds at which a cached value is requested anew, because another process
    (the kubelet) may have changed the file.
    """

    def __init__(
        self,
        files: CgroupFiles,
        clock: Clock,
        *,
        force_update: float = 60.0,
        changes: Changes | None = None,
    ) -> None:
        self.files = files
        self.changes = changes if changes is not None else Changes()
        self.writer = Writer(files, clock, self.changes)
        self.plugin = ""
        """On whose behalf files are written."""
        self._clock = clock
        self._force_update = force_update
        self._cache: dict[Key, _Cached] = {}
        self._generation = self.changes.generation
        self._looked = float("-inf")
        self.revision = 0
        """Grows with every request that is more than the repetition of one that is in place."""

    def of(self, plugin: str) -> "PluginExecutor":
        """Return this executor as one plugin has it: its name is remembered with what it changes."""
        return PluginExecutor(self, plugin)

    def update(self, update: Update, *, cached: bool = True) -> bool:
        """Set a file to a value; return whether something was done.

        A resource that this node does not have, or that is left alone, is not an error (and is retried next
        time). Raises CgroupError for all other failures.
        """
        if not self._allowed(update) or (cached and not self._needed(update)):
            return False
        try:
            self._timed(update)
        except UnsupportedError as error:
            log.debug("%s", error)
            return False
        if cached:
            self._remember(update)
        return True

    def update_batch(self, updates: Sequence[Update], *, cached: bool = True) -> None:
        """Update files in order; failures are logged and counted, the rest continues."""
        for update in updates:
            try:
                self.update(update, cached=cached)
            except CgroupError as error:
                log.warning("cannot update %s of %s: %s", update.resource, update.directory, error)

    def leveled_update_batch(self, levels: Sequence[Sequence[Update]]) -> None:
        """Update a tree, levels from the root down, so that limits are always consistent.

        Growing values are written on the way down, shrinking ones on the way up. A CPU set that is no subset
        of the old one becomes the union on the way down, and is narrowed on the way up. Resources of which
        the order does not matter are written on the way down.
        """
        done: set[Key] = set()
        for level in levels:
            for update in level:
                self._guarded(self._grow, update, done)
        for level in reversed(levels):
            for update in level:
                self._guarded(self._shrink, update, done)

    def create_group(self, directory: str, reason: str = "CreateCATGroup") -> bool:
        """Create a resctrl group; return whether it is new. Raises CgroupError, UnsupportedError."""
        return self.writer.create_group(directory, reason, self.plugin)

    def remove_group(self, directory: str, reason: str = "RemoveCATGroup") -> bool:
        """Remove a resctrl group; return whether there was one. Raises CgroupError."""
        return self.writer.remove_group(directory, reason, self.plugin)

    def paused(self, directory: str = "") -> bool:
        """Return whether nothing may be written in a directory, because it was undone."""
        self.changes.refresh()
        return self.changes.pauses.covering(self.plugin, directory) is not None

    def collect(self) -> None:
        """Drop cache entries that were not requested within two minutes, and all of cgroups that ended."""
        horizon = self._clock.monotonic() - CACHE_TTL.total_seconds()
        self._cache = {key: entry for key, entry in self._cache.items() if entry.at >= horizon}
        self.files.open_files.collect()
        self.files.listings.collect()
        self.writer.drop_vanished()

    # --- cache -----------------------------------------------------------------------------------

    def _allowed(self, update: Update) -> bool:
        """Return whether a file may be written; what is paused may have been enabled again."""
        pauses = self.changes.pauses
        if not pauses and not self.writer.left_alone:
            return True
        now = self._clock.monotonic()
        if pauses and now - self._looked >= _PAUSE_SECONDS:
            self._looked = now
            self.changes.refresh()
        try:
            self.writer.check(update, self.plugin)
        except LeftAloneError:
            self.revision += 1
            return False
        return True

    def _needed(self, update: Update) -> bool:
        if self._generation != self.changes.generation:
            self._generation = self.changes.generation
            self._cache.clear()
        entry = self._cache.get(self.writer.key(update))
        if entry is not None and entry.value == update.value:
            now = self._clock.monotonic()
            if now - entry.at <= self._force_update:
                if now - entry.checked <= CHECK_SECONDS:
                    return False
                entry.checked = now
                if not self.writer.changed_by_others(update):
                    return False
        self.revision += 1
        return True

    def _remember(self, update: Update) -> None:
        now = self._clock.monotonic()
        self._cache[self.writer.key(update)] = _Cached(update.value, now, now)

    def _timed(self, update: Update) -> None:
        """Write a file if it differs, and measure how long that takes."""
        type_, status, start = _type(self.files.resource(update.resource)), "success", perf_counter()
        try:
            self.writer.write(update, self.plugin)
        except UnsupportedError:
            raise
        except CgroupError:
            status = "failed"
            UPDATES.labels(update.resource, status).inc()
            raise
        finally:
            DURATION.labels(type_, status).observe((perf_counter() - start) * 1000)

    # --- trees -----------------------------------------------------------------------------------

    def _grow(self, update: Update, done: set[Key]) -> None:
        if not self._allowed(update) or not self._needed(update):
            return
        line = self.files.resource(update.resource)
        if not line.mergeable:
            self._timed(update)
            done.add(self.writer.key(update))
            self._remember(update)
            return
        wider, text = self._merged(line, update)
        if wider:
            self._timed(replace(update, value=text))
            if text == update.value:
                self._remember(update)

    def _merged(self, line: Resource, update: Update) -> tuple[bool, str]:
        """Return whether the new value is wider than the old one, and what to write on the way down."""
        self.files.validate(update.resource, update.value)
        old_text = self.files.read_raw(update.resource, update.directory)
        if line.kind is Kind.CPUSET:
            old, new = cpuset.parse(old_text), cpuset.parse(update.value)
            return (False, old_text) if new <= old else (True, cpuset.render(old | new))
        wider = values.limit(line.name, update.value) > values.limit(line.name, old_text)
        return wider, update.value

    def _shrink(self, update: Update, done: set[Key]) -> None:
        if not self._allowed(update) or self.writer.key(update) in done or not self._needed(update):
            return
        self._timed(update)
        self._remember(update)

    def _guarded(self, step: Callable[[Update, set[Key]], None], update: Update, done: set[Key]) -> None:
        try:
            step(update, done)
        except UnsupportedError as error:
            log.debug("%s", error)
        except (CgroupError, ValueError) as error:
            log.warning("cannot update %s of %s: %s", update.resource, update.directory, error)


def _type(line: Resource) -> str:
    if line.base is Base.RESCTRL:
        return "resctrl-schema"
    return "cgroup" if line.base is Base.CGROUP else "default"


class PluginExecutor:
    """The executor as one plugin has it."""

    def __init__(self, executor: Executor, plugin: str) -> None:
        self._executor, self._plugin = executor, plugin

    @property
    def revision(self) -> int:
        """A number that grows with every request that is more than a repetition, by whatever plugin."""
        return self._executor.revision

    def update(self, update: Update, *, cached: bool = True) -> bool:
        """Set a file to a value; return whether it was needed and possible. Raises CgroupError."""
        with self._named() as executor:
            return executor.update(update, cached=cached)

    def update_batch(self, updates: Sequence[Update], *, cached: bool = True) -> None:
        """Update files in order; failures are logged and counted, the rest continues."""
        with self._named() as executor:
            executor.update_batch(updates, cached=cached)

    def leveled_update_batch(self, levels: Sequence[Sequence[Update]]) -> None:
        """Update a tree, levels from the root down, so that no child ever exceeds its parent."""
        with self._named() as executor:
            executor.leveled_update_batch(levels)

    def create_group(self, directory: str, reason: str = "CreateCATGroup") -> bool:
        """Create a resctrl group; return whether it is new. Raises CgroupError, UnsupportedError."""
        with self._named() as executor:
            return executor.create_group(directory, reason)

    def remove_group(self, directory: str, reason: str = "RemoveCATGroup") -> bool:
        """Remove a resctrl group; return whether there was one. Raises CgroupError."""
        with self._named() as executor:
            return executor.remove_group(directory, reason)

    def paused(self, directory: str = "") -> bool:
        """Return whether nothing may be written in a directory, because it was undone."""
        with self._named() as executor:
            return executor.paused(directory)

    @contextmanager
    def _named(self) -> Iterator[Executor]:
        previous, self._executor.plugin = self._executor.plugin, self._plugin
        try:
            yield self._executor
        finally:
            self._executor.plugin = previous
