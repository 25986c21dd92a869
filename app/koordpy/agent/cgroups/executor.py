"""The one place that writes cgroup files.

Strategies repeatedly request values; the executor validates them, writes only changes, and can update a tree
of directories in an order in which no child ever exceeds its parent (Koordinator:
pkg/koordlet/resourceexecutor).
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from prometheus_client import Counter

from koordpy.agent.cgroups.files import CgroupFiles, comparable
from koordpy.agent.interface.cgroups import CgroupError, UnsupportedError, Update
from koordpy.lib import cpuset
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

UPDATES = Counter("koordlet_resource_updates_total", "Writes to cgroup files.", ["resource", "status"])

CACHE_TTL = timedelta(minutes=2)


@dataclass(frozen=True)
class _Cached:
    value: str
    at: float


class Executor:
    """Writes cgroup files, with a cache of requested values.

    `force_update` is the age in seconds at which a cached value is written again, because another process
    (the kubelet) may have changed the file.
    """

    def __init__(self, files: CgroupFiles, clock: Clock, *, force_update: float = 60.0) -> None:
        self.files = files
        self._clock = clock
        self._force_update = force_update
        self._cache: dict[str, _Cached] = {}

    def update(self, update: Update, *, cached: bool = True) -> bool:
        """Set a file to a value; return whether something was done.

        A resource that this node does not have is not an error (and is retried next time). Raises CgroupError
        for all other failures.
        """
        if cached and not self._needed(update):
            return False
        try:
            self._write_if_different(update)
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

        Growing values are written on the way down, shrinking ones on the way up. A file whose new CPU set
        overlaps the old one gets the union on the way down, and is narrowed after the force-update age.
        """
        done: set[str] = set()
        for level in levels:
            for update in level:
                self._guarded(self._grow, update, done)
        for level in reversed(levels):
            for update in level:
                self._guarded(self._shrink, update, done)

    def collect(self) -> None:
        """Drop cache entries that were not used within two minutes."""
        horizon = self._clock.monotonic() - CACHE_TTL.total_seconds()
        self._cache = {key: entry for key, entry in self._cache.items() if entry.at >= horizon}

    # ---------------------------------------------------------------------------------------------

    def _key(self, update: Update) -> str:
        return str(self.files.path(update.resource, update.directory))

    def _needed(self, update: Update) -> bool:
        entry = self._cache.get(self._key(update))
        return (
            entry is None
            or entry.value != update.value
            or self._clock.monotonic() - entry.at > self._force_update
        )

    def _remember(self, update: Update) -> None:
        self._cache[self._key(update)] = _Cached(update.value, self._clock.monotonic())

    def _write_if_different(self, update: Update) -> None:
        files = self.files
        try:
            files.validate(update.resource, update.value)
            text = files.translate(update.resource, update.value)
            current = files.read_raw(update.resource, update.directory)
            if self._same(update.resource, current, text):
                return
            files.write(update.resource, update.directory, text)
        except UnsupportedError:
            raise
        except CgroupError:
            UPDATES.labels(update.resource, "failed").inc()
            raise
        UPDATES.labels(update.resource, "success").inc()
        log.info("%s: %s of %s: %s -> %s", update.reason, update.resource, update.directory, current, text)

    def _same(self, resource: str, current: str, text: str) -> bool:
        if current == text:
            return True
        kind = self.files.resource(resource).kind
        if kind == "cpuset":
            try:
                return cpuset.parse(current) == cpuset.parse(text)
            except ValueError:
                return False
        return kind == "quota" and current.split()[:1] == [text]

    def _grow(self, update: Update, done: set[str]) -> None:
        if not self._needed(update):
            return
        merged = self._merged(update)
        if merged is None:
            self._write_if_different(update)
            done.add(self._key(update))
            self._remember(update)
            return
        wider, text = merged
        if wider:
            self._write_if_different(replace(update, value=text))
            self._remember(update)
        else:
            self._remember(replace(update, value=text))

    def _merged(self, update: Update) -> tuple[bool, str] | None:
        """Return whether the new value is wider than the old one, and what to write (or cache) now."""
        resource = self.files.resource(update.resource)
        if resource.kind == "cpuset":
            self.files.validate(update.resource, update.value)
            old_text = self.files.read(update.resource, update.directory)
            old, new = cpuset.parse(old_text), cpuset.parse(update.value)
            return (False, old_text) if new <= old else (True, cpuset.render(old | new))
        order = comparable(resource)
        if order is None:
            return None
        self.files.validate(update.resource, update.value)
        old_text = self.files.read(update.resource, update.directory)
        return (True, update.value) if order(update.value) > order(old_text) else (False, old_text)

    def _shrink(self, update: Update, done: set[str]) -> None:
        if self._key(update) in done or not self._needed(update):
            return
        self._write_if_different(update)
        self._remember(update)

    def _guarded(self, step: Callable[[Update, set[str]], None], update: Update, done: set[str]) -> None:
        try:
            step(update, done)
        except UnsupportedError as error:
            log.debug("%s", error)
        except CgroupError as error:
            log.warning("cannot update %s of %s: %s", update.resource, update.directory, error)
