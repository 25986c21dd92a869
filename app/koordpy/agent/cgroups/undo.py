"""Restores original values: of everything, of what one plugin changed, or of a part of the tree.

Limits grow from the root down and shrink from the leaves up, as the kernel wants it. What it still refuses,
because another file has to change first, is tried again after the others. A value that somebody else wrote
after the agent is theirs: it is reported and not touched, unless that is asked for.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from koordpy.agent.cgroups import values
from koordpy.agent.cgroups.changes import Change, Changes
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.pauses import Pause, Scope
from koordpy.agent.cgroups.table import Kind, Resource
from koordpy.agent.cgroups.writer import GROUP, is_own
from koordpy.agent.interface.cgroups import CgroupError, UnsupportedError
from koordpy.lib import cpuset

_PASSES: Final = 8


class Outcome(StrEnum):
    """What became of one change."""

    RESTORED = "restored"
    UNCHANGED = "unchanged"
    """It had its original value already."""
    GONE = "gone"
    """Its cgroup or process has ended."""
    OTHERS = "changed by others"
    FAILED = "failed"


@dataclass(frozen=True)
class Restored:
    """What became of one change; `current` is the value before."""

    change: Change
    outcome: Outcome
    current: str = ""
    error: str = ""


@dataclass
class Undo:
    """What is undone, and how: `force` restores what others changed since, too."""

    files: CgroupFiles
    changes: Changes
    force: bool = False
    observers: list[Callable[[Restored], None]] = field(default_factory=list)

    def run(self, pause: Pause) -> list[Restored]:
        """Restore everything that a pause covers, and pause it. Raises ChangesError.

        The pause is written down first, so that a running agent stays away from the beginning.
        """
        with self.changes.exclusive(wait=True):
            self.changes.pauses.add(pause)
            self.changes.save_pauses()
            found = [change for change in self.changes if pause.covers(change.plugin, change.directory)]
            results = self._restore(found)
            for result in results:
                if result.outcome in (Outcome.RESTORED, Outcome.UNCHANGED, Outcome.GONE):
                    self.changes.forget(result.change.key)
                for observer in self.observers:
                    observer(result)
        return results

    def _restore(self, found: list[Change]) -> list[Restored]:
        ready: list[Change] = []
        results: list[Restored] = []
        for change in found:
            result = self._examine(change)
            if result is None:
                ready.append(change)
            else:
                results.append(result)
        downwards = sorted(ready, key=lambda change: (change.directory.count("/"), change.directory))
        for change in downwards:
            self._grow(change)
        left = list(reversed(downwards))
        errors: dict[int, str] = {}
        for _ in range(_PASSES):
            failed = []
            for change in left:
                current = self._current(change)
                try:
                    self._write(change)
                except CgroupError as error:
                    errors[id(change)] = str(error)
                    failed.append(change)
                else:
                    results.append(Restored(change, Outcome.RESTORED, current))
            if not failed or len(failed) == len(left):
                left = failed
                break
            left = failed
        results += [
            Restored(change, Outcome.FAILED, self._current(change), errors[id(change)]) for change in left
        ]
        return sorted(results, key=lambda result: (result.change.directory, result.change.resource))

    def _examine(self, change: Change) -> Restored | None:
        """Return what became of a change, None if it is to be restored."""
        if change.resource == GROUP:
            there = os.path.isdir(self._group(change))
            return None if there else Restored(change, Outcome.GONE)
        line = self.files.resource(change.resource)
        if self.files.identity(change.resource, change.directory) != change.identity:
            return Restored(change, Outcome.GONE)
        try:
            content = self.files.read_raw(change.resource, change.directory)
        except UnsupportedError:
            return Restored(change, Outcome.GONE)
        except CgroupError as error:
            return Restored(change, Outcome.FAILED, error=str(error))
        version = self.files.version
        current = values.part_of(line, version, content, change.part)
        if values.same(line, version, content, change.original):
            return Restored(change, Outcome.UNCHANGED, current)
        if not self.force and not is_own(line, version, content, change):
            return Restored(change, Outcome.OTHERS, current)
        return None

    def _grow(self, change: Change) -> None:
        """Make room in a parent for what its children get back; whatever fails is tried again later."""
        if change.resource == GROUP:
            return
        line = self.files.resource(change.resource)
        try:
            text = self._wider(line, change)
            if text is not None:
                self.files.write(change.resource, change.directory, text)
        except (CgroupError, ValueError):
            return

    def _wider(self, line: Resource, change: Change) -> str | None:
        current = self._current(change)
        if line.kind is Kind.CPUSET:
            before, after = cpuset.parse(current), cpuset.parse(change.original)
            return None if after <= before else cpuset.render(before | after)
        if line.kind not in (Kind.QUOTA, Kind.LARGER, Kind.LIMIT):
            return None
        wider = values.limit(line.name, change.original) > values.limit(line.name, current)
        return change.original if wider else None

    def _write(self, change: Change) -> None:
        if change.resource == GROUP:
            try:
                os.rmdir(self._group(change))
            except OSError as error:
                raise CgroupError(f"cannot remove {self._group(change)}: {error.strerror}") from None
            return
        line = self.files.resource(change.resource)
        content = self.files.read_raw(change.resource, change.directory)
        text = change.original
        if line.kind is Kind.PERIOD:
            text = self.files.translate(change.resource, text, content)
        if not values.same(line, self.files.version, content, text):
            self.files.write(change.resource, change.directory, text)

    def _current(self, change: Change) -> str:
        if change.resource == GROUP:
            return ""
        line = self.files.resource(change.resource)
        try:
            content = self.files.read_raw(change.resource, change.directory)
        except CgroupError:
            return ""
        return values.part_of(line, self.files.version, content, change.part)

    def _group(self, change: Change) -> str:
        return f"{self.files.folder('resctrl.schemata', '')}/{change.directory}"


def enable(changes: Changes, scope: Scope, value: str = "") -> bool:
    """Let the agent write again what was paused; return whether it was. Raises ChangesError."""
    with changes.exclusive(wait=True):
        found = changes.pauses.remove(scope, value)
        if found:
            changes.save_pauses()
    return found
