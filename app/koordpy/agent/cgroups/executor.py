"""The one place that writes cgroup files and other kernel files.

Strategies repeatedly request values; the executor validates them, writes only changes, and can update a tree
of directories in an order in which no child ever exceeds its parent (Koordinator:
pkg/koordlet/resourceexecutor).

What was requested before is not looked at again for `CHECK_SECONDS`; then the file is read, and a value that
somebody else wrote in the meantime is replaced.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import perf_counter
from typing import Final

from prometheus_client import Counter, Histogram

from koordpy.agent.cgroups import values
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Base, Kind, Resource
from koordpy.agent.interface.cgroups import CgroupError, UnsupportedError, Update
from koordpy.lib import cpuset
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

UPDATES = Counter("koordlet_resource_updates_total", "Writes to cgroup files.", ["resource", "status"])
DURATION = Histogram(
    "koordlet_resource_update_duration_milliseconds",
    "Time of an update of a resource, such as a cgroup file.",
    ["type", "status"],
    buckets=[0.01 * 4**i for i in range(8)],
)

CACHE_TTL: Final = timedelta(minutes=2)
CHECK_SECONDS: Final = 5.0
"""The age at which a requested value is compared with the file again."""

_Key = tuple[str, str, str]
"""Resource, directory, and the part of the file."""


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

    def __init__(self, files: CgroupFiles, clock: Clock, *, force_update: float = 60.0) -> None:
        self.files = files
        self._clock = clock
        self._force_update = force_update
        self._cache: dict[_Key, _Cached] = {}

    def update(self, update: Update, *, cached: bool = True) -> bool:
        """Set a file to a value; return whether something was done.

        A resource that this node does not have is not an error (and is retried next time). Raises CgroupError
        for all other failures.
        """
        if cached and not self._needed(update):
            return False
        try:
            self._timed(self._write_if_different, update)
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
        done: set[_Key] = set()
        for level in levels:
            for update in level:
                self._guarded(self._grow, update, done)
        for level in reversed(levels):
            for update in level:
                self._guarded(self._shrink, update, done)

    def create_group(self, directory: str, reason: str = "CreateCATGroup") -> bool:
        """Create a resctrl group; return whether it is new. Raises CgroupError, UnsupportedError."""
        root = self.files.folder("resctrl.schemata", "")
        if not os.path.exists(f"{root}/schemata"):
            raise UnsupportedError(f"resource unsupported: {root} is no resctrl file system")
        try:
            os.mkdir(f"{root}/{directory}")
        except FileExistsError:
            return False
        except OSError as error:
            raise CgroupError(f"cannot create {root}/{directory}: {error.strerror}") from None
        log.info("%s: created resctrl group %s", reason, directory)
        return True

    def collect(self) -> None:
        """Drop cache entries that were not requested within two minutes, and files of cgroups that ended."""
        horizon = self._clock.monotonic() - CACHE_TTL.total_seconds()
        self._cache = {key: entry for key, entry in self._cache.items() if entry.at >= horizon}
        self.files.open_files.collect()

    # --- cache -----------------------------------------------------------------------------------

    def _key(self, update: Update) -> _Key:
        line = self.files.resource(update.resource)
        return update.resource, update.directory, values.part(line, update.value)

    def _needed(self, update: Update) -> bool:
        entry = self._cache.get(self._key(update))
        if entry is None or entry.value != update.value:
            return True
        now = self._clock.monotonic()
        if now - entry.at > self._force_update:
            return True
        if now - entry.checked > CHECK_SECONDS:
            entry.checked = now
            return self._changed_by_others(update)
        return False

    def _changed_by_others(self, update: Update) -> bool:
        line = self.files.resource(update.resource)
        if line.kind is Kind.MOVE:
            return False
        try:
            current = self.files.read_raw(update.resource, update.directory)
        except CgroupError:
            return True
        text = self.files.translate(update.resource, update.value, current)
        return not values.same(line, self.files.version, current, text)

    def _remember(self, update: Update) -> None:
        now = self._clock.monotonic()
        self._cache[self._key(update)] = _Cached(update.value, now, now)

    # --- writing ---------------------------------------------------------------------------------

    def _timed(self, step: Callable[[Update], None], update: Update) -> None:
        start = perf_counter()
        try:
            step(update)
        except UnsupportedError:
            raise
        except CgroupError:
            UPDATES.labels(update.resource, "failed").inc()
            DURATION.labels(_type(self.files.resource(update.resource)), "failed").observe(
                (perf_counter() - start) * 1000
            )
            raise
        DURATION.labels(_type(self.files.resource(update.resource)), "success").observe(
            (perf_counter() - start) * 1000
        )

    def _write_if_different(self, update: Update) -> None:
        files = self.files
        line = files.resource(update.resource)
        files.validate(update.resource, update.value)
        if line.kind is Kind.MOVE:
            files.write(update.resource, update.directory, update.value)
            UPDATES.labels(update.resource, "success").inc()
            log.info("%s: moved %s to %s", update.reason, update.value, update.directory)
            return
        current = files.read_raw(update.resource, update.directory)
        text = files.translate(update.resource, update.value, current)
        if values.same(line, files.version, current, text):
            return
        files.write(update.resource, update.directory, text)
        UPDATES.labels(update.resource, "success").inc()
        old = values.part_of(line, current, values.part(line, update.value))
        log.info("%s: %s of %s: %s -> %s", update.reason, update.resource, update.directory, old, text)

    # --- trees -----------------------------------------------------------------------------------

    def _grow(self, update: Update, done: set[_Key]) -> None:
        if not self._needed(update):
            return
        line = self.files.resource(update.resource)
        if not line.mergeable:
            self._timed(self._write_if_different, update)
            done.add(self._key(update))
            self._remember(update)
            return
        wider, text = self._merged(line, update)
        if wider:
            self._timed(self._write_if_different, replace(update, value=text))
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

    def _shrink(self, update: Update, done: set[_Key]) -> None:
        if self._key(update) in done or not self._needed(update):
            return
        self._timed(self._write_if_different, update)
        self._remember(update)

    def _guarded(self, step: Callable[[Update, set[_Key]], None], update: Update, done: set[_Key]) -> None:
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
