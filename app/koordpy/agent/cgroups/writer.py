"""Writes one file: only if its value changes, only if it may, and never before the change is remembered."""

import logging
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from prometheus_client import Counter

from koordpy.agent.cgroups import values
from koordpy.agent.cgroups.changes import Change, Changes, ChangesError, Key, LockedError
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Kind, Resource, Version
from koordpy.agent.interface.cgroups import CgroupError, UnsupportedError, Update
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

UPDATES = Counter("koordlet_resource_updates_total", "Writes to cgroup files.", ["resource", "status"])
OTHERS = Counter(
    "koordlet_resource_changed_by_others_total",
    "Values that the agent wrote and that somebody else replaced.",
    ["resource"],
)

GROUP: Final = "resctrl.group"
"""The resource of a change that created a resctrl group; its original value is that there was none."""

_CONTESTED: Final = frozenset({"memory.min", "memory.low", "memory.high"})
"""What the kubelet writes with its feature MemoryQoS."""
_PATIENCE: Final = 3
"""How often the value of a contested file is replaced before it is left to the other writer."""


class LeftAloneError(UnsupportedError):
    """A file must not be written, because somebody undid its changes or because it is another's."""


@dataclass(frozen=True, slots=True)
class Written:
    """One write to the node."""

    path: str
    resource: str
    directory: str
    old: str
    new: str
    plugin: str
    reason: str
    formula: str


@dataclass
class Writer:
    """Writes the files of a node. `left_alone` has the reason by resource that others write."""

    files: CgroupFiles
    clock: Clock
    changes: Changes
    observers: list[Callable[[Written], None]] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    _replaced: dict[str, int] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    def key(self, update: Update) -> Key:
        """Return what an update is of."""
        line = self.files.resource(update.resource)
        return update.resource, update.directory, values.part(line, update.value)

    def check(self, update: Update, plugin: str) -> None:
        """Raise LeftAloneError if an update must not be made."""
        reason = self.left_alone.get(update.resource)
        if reason is not None:
            if update.resource not in self._said:
                self._said.add(update.resource)
                log.warning("%s is left alone on this node: %s", update.resource, reason)
            raise LeftAloneError(f"{update.resource} is left alone: {reason}")
        pause = self.changes.pauses.covering(plugin, update.directory)
        if pause is not None:
            raise LeftAloneError(f"{update.directory} is left alone: {pause} was undone")

    def changed_by_others(self, update: Update) -> bool:
        """Return whether a file no longer has the value that was written last."""
        line = self.files.resource(update.resource)
        if line.kind is Kind.MOVE:
            return False
        try:
            content = self.files.read_raw(update.resource, update.directory)
        except CgroupError:
            return True
        text = self.files.translate(update.resource, update.value, content)
        return not self._has(line, content, text, self.changes.get(self.key(update)))

    def write(self, update: Update, plugin: str) -> bool:
        """Set a file to a value; return whether it had to be written. Raises CgroupError."""
        line = self.files.resource(update.resource)
        self.files.validate(update.resource, update.value)
        try:
            with self.changes.exclusive():
                self.check(update, plugin)
                if line.kind is Kind.MOVE:
                    self.files.write(update.resource, update.directory, update.value)
                    self._tell(update, plugin, "", update.value)
                    return True
                return self._write(line, update, plugin)
        except LockedError as error:
            raise LeftAloneError(str(error)) from None
        except ChangesError as error:
            raise CgroupError(f"{update.resource} of {update.directory} is not written: {error}") from None

    def create_group(self, directory: str, reason: str, plugin: str) -> bool:
        """Create a resctrl group; return whether it is new. Raises CgroupError, UnsupportedError."""
        root = self.files.folder("resctrl.schemata", "")
        if not os.path.exists(f"{root}/schemata"):
            raise UnsupportedError(f"resource unsupported: {root} is no resctrl file system")
        update = Update(GROUP, directory, "", reason)
        try:
            with self.changes.exclusive():
                self.check(update, plugin)
                now = self.clock.now().timestamp()
                os.mkdir(f"{root}/{directory}")
                self.changes.put(Change(GROUP, directory, "", "", "", "", plugin, reason, "", now, now))
        except FileExistsError:
            return False
        except LockedError as error:
            raise LeftAloneError(str(error)) from None
        except OSError as error:
            raise CgroupError(f"cannot create {root}/{directory}: {error.strerror or error}") from None
        self._tell(update, plugin, "", "")
        return True

    def remove_group(self, directory: str, reason: str, plugin: str) -> bool:
        """Remove a resctrl group; return whether there was one. Raises CgroupError."""
        root, update = self.files.folder("resctrl.schemata", ""), Update(GROUP, directory, "", reason)
        try:
            with self.changes.exclusive():
                self.check(update, plugin)
                os.rmdir(f"{root}/{directory}")
                for change in tuple(self.changes):
                    if change.directory == directory and change.resource.startswith("resctrl."):
                        self.changes.forget(change.key)
        except FileNotFoundError:
            return False
        except LockedError as error:
            raise LeftAloneError(str(error)) from None
        except OSError as error:
            raise CgroupError(f"cannot remove {root}/{directory}: {error.strerror or error}") from None
        self._tell(update, plugin, "", "")
        return True

    def drop_vanished(self) -> None:
        """Forget changes of cgroups and processes that ended."""
        if not len(self.changes):
            return
        found: dict[tuple[str, str], int] = {}
        with suppress(LockedError), self.changes.exclusive():
            for change in tuple(self.changes):
                if change.resource == GROUP:
                    continue
                place = (self.files.resource(change.resource).subsystem, change.directory)
                if place not in found:
                    found[place] = self.files.identity(change.resource, change.directory)
                if found[place] != change.identity:
                    self.changes.forget(change.key)

    def _write(self, line: Resource, update: Update, plugin: str) -> bool:
        files, changes = self.files, self.changes
        content = files.read_raw(update.resource, update.directory)
        text = files.translate(update.resource, update.value, content)
        key = self.key(update)
        before = self._before(key)
        if self._has(line, content, text, before):
            return False
        current = values.part_of(line, files.version, content, key[2])
        original, previous, first = current, "", self.clock.now().timestamp()
        if before is not None:
            first = before.first
            if is_own(line, files.version, current, before):
                original, previous = before.original, current
            else:
                self._replaced_by_others(update, before, current)
        change = Change(
            *key,
            original=original,
            written=text,
            requested=text,
            plugin=plugin,
            reason=update.reason,
            formula=update.formula,
            first=first,
            last=self.clock.now().timestamp(),
            identity=files.identity(update.resource, update.directory),
            previous=previous,
        )
        changes.put(change)
        try:
            files.write(update.resource, update.directory, text)
        except CgroupError:
            if before is None:
                changes.forget(key)
            else:
                changes.put(before)
            raise
        self._settle(line, change)
        self._tell(update, plugin, current, text)
        return True

    def _settle(self, line: Resource, change: Change) -> None:
        """Remember what the kernel made of a value; a file with its original value was not changed."""
        version = self.files.version
        if values.same(line, version, change.original, change.requested):
            self.changes.forget(change.key)
            return
        try:
            content = self.files.read_raw(change.resource, change.directory)
        except CgroupError:
            return
        if not values.same(line, version, content, change.requested):
            written = values.part_of(line, version, content, change.part)
            self.changes.put(replace(change, written=written))

    def _before(self, key: Key) -> Change | None:
        """Return the change of a file, unless it was of an earlier group of the same name."""
        before = self.changes.get(key)
        if before is None or before.identity in (0, self.files.identity(key[0], key[1])):
            return before
        self.changes.forget(key)
        return None

    def _has(self, line: Resource, content: str, text: str, change: Change | None) -> bool:
        version = self.files.version
        if values.same(line, version, content, text):
            return True
        # The kernel rounds some values.
        return (
            change is not None
            and change.requested == text
            and values.same(line, version, content, change.written)
        )

    def _replaced_by_others(self, update: Update, before: Change, current: str) -> None:
        OTHERS.labels(update.resource).inc()
        log.info(
            "%s: somebody else replaced %s by %s",
            _place(update),
            before.written,
            current,
        )
        if update.resource not in _CONTESTED:
            return
        count = self._replaced[update.resource] = self._replaced.get(update.resource, 0) + 1
        if count >= _PATIENCE:
            self.left_alone[update.resource] = (
                f"somebody else, most likely the kubelet with MemoryQoS, replaced it {count} times, "
                f"last in {update.directory}"
            )
            self.check(update, "")

    def _tell(self, update: Update, plugin: str, old: str, new: str) -> None:
        UPDATES.labels(update.resource, "success").inc()
        log.info("%s: %s: %s -> %s", update.reason, _place(update), old, new)
        if not self.observers:
            return
        path = (
            f"{self.files.folder('resctrl.schemata', '')}/{update.directory}"
            if update.resource == GROUP
            else str(self.files.path(update.resource, update.directory))
        )
        written = Written(
            path, update.resource, update.directory, old, new, plugin, update.reason, update.formula
        )
        for observer in self.observers:
            observer(written)


def _place(update: Update) -> str:
    return f"{update.resource} of {update.directory}" if update.directory else update.resource


def is_own(line: Resource, version: Version, content: str, change: Change) -> bool:
    """Return whether a file has a value of the agent's.

    An agent that is killed leaves its file with the value before the last one, or with what the kernel made
    of the last one, which is whole pages for limits of memory.
    """
    if any(
        values.same(line, version, content, text)
        for text in (change.written, change.requested, change.previous)
        if text
    ):
        return True
    return content.isdecimal() and change.requested.isdecimal() and _is_rounded(int(content), change)


def _is_rounded(found: int, change: Change) -> bool:
    return (
        change.resource.startswith("memory.") and abs(found - int(change.requested)) < resource.getpagesize()
    )
