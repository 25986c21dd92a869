"""The cookies of groups of containers: which group has which, and which processes carry it.

Containers of a group share a cookie. A new one is created only where no process of the group has one any
more. Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/coresched` (`cookie_cache.go`, `helper.go`).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from .kernel import NO_COOKIE, Kernel

log = logging.getLogger(__name__)


@dataclass
class _Group:
    cookie: int
    pids: set[int] = field(default_factory=set)
    containers: set[str] = field(default_factory=set)


class Cookies:
    """The groups. Containers are named by any unique text; groups without containers are forgotten."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        self._denied = False

    def adopt(self, container: str, group: str, pids: Sequence[int]) -> int | None:
        """Take over the cookie that a container's processes have since an earlier run of the agent.

        Returns it, NO_COOKIE where they have none, None where that cannot be read. The first container of a
        group decides which cookie its group has.
        """
        found: list[tuple[int, int]] = []
        for pid in pids:
            try:
                found.append((pid, self._kernel.get(pid)))
            except PermissionError as error:
                if not self._denied:
                    log.warning(
                        "no container gets a core sched cookie: that of process %d may not be read (%s); the "
                        "agent needs CAP_SYS_PTRACE",
                        pid,
                        error.strerror,
                    )
                self._denied = True
            except OSError as error:
                log.debug("core sched cookie of process %d: %s", pid, error)
        if not found:
            return None
        cookie = next((cookie for _, cookie in found if cookie != NO_COOKIE), NO_COOKIE)
        if cookie == NO_COOKIE:
            return NO_COOKIE
        known = self._groups.get(group)
        if known is not None and known.cookie != cookie:
            log.warning(
                "core sched group %r has cookie %d, container %s has another", group, known.cookie, container
            )
            return NO_COOKIE
        self._join(container, group, cookie, {pid for pid, each in found if each == cookie})
        return cookie

    def assign(self, container: str, group: str, pids: Sequence[int]) -> int:
        """Give all processes of a container the cookie of a group; return the cookie. Raises OSError."""
        known = self._groups.get(group)
        if known is not None:
            if known.pids.issuperset(pids):
                self._join(container, group, known.cookie, set())
                return known.cookie
            if self._share(known, pids):
                self._join(container, group, known.cookie, set())
                return known.cookie
            log.info("core sched group %r: no process has cookie %d any more", group, known.cookie)
            self._groups.pop(group)
        self._kernel.create(pids[0])
        cookie = self._kernel.get(pids[0])
        if cookie == NO_COOKIE:
            raise OSError(f"process {pids[0]} got no core sched cookie")
        failed = self._kernel.assign(pids[0], pids[1:]) if len(pids) > 1 else []
        self._join(container, group, cookie, set(pids).difference(failed))
        return cookie

    def clear(self, container: str, pids: Sequence[int]) -> tuple[str, int] | None:
        """Take the cookie from a container that has one; return its group and cookie. Raises OSError."""
        group = self._group_of.get(container)
        if group is None:
            return None
        known = self._groups.get(group)
        carrying = [pid for pid in pids if self._cookie(pid) not in (None, NO_COOKIE)]
        failed = self._kernel.clear(carrying) if carrying else []
        if known is not None:
            known.pids.difference_update(set(pids).difference(failed))
        self.forget(container)
        return group, known.cookie if known is not None else NO_COOKIE

    def forget(self, container: str) -> str | None:
        """Forget a container that is gone; return its group."""
        group = self._group_of.pop(container, None)
        known = None if group is None else self._groups.get(group)
        if group is not None and known is not None:
            known.containers.discard(container)
            if not known.containers:
                del self._groups[group]
        return group

    def group_of(self, container: str) -> str | None:
        """Return the group of a container that has a cookie."""
        return self._group_of.get(container)

    def cookie_of(self, group: str) -> int:
        """Return the cookie of a group, NO_COOKIE if it has none."""
        known = self._groups.get(group)
        return NO_COOKIE if known is None else known.cookie

    def _share(self, known: _Group, pids: Sequence[int]) -> bool:
        """Give processes the cookie of a group; return False if no process of the group carries it."""
        cookies = {pid: self._cookie(pid) for pid in pids}
        if all(cookie is None for cookie in cookies.values()):
            return True
        missing = [pid for pid, cookie in cookies.items() if cookie not in (None, known.cookie)]
        carrying = {pid for pid, cookie in cookies.items() if cookie == known.cookie}
        if missing:
            source = next(iter(carrying), None) or self._carrier(known)
            if source is None:
                return False
            failed = self._kernel.assign(source, missing)
            carrying.update(set(missing).difference(failed))
        known.pids |= carrying
        return True

    def _carrier(self, known: _Group) -> int | None:
        """Return a process that still carries a group's cookie; forget those that do not."""
        for pid in sorted(known.pids):
            if self._cookie(pid) == known.cookie:
                return pid
            known.pids.discard(pid)
        return None

    def _cookie(self, pid: int) -> int | None:
        try:
            return self._kernel.get(pid)
        except OSError:
            return None

    def _join(self, container: str, group: str, cookie: int, pids: set[int]) -> None:
        if self._group_of.get(container) != group:
            self.forget(container)
        known = self._groups.setdefault(group, _Group(cookie))
        known.containers.add(container)
        known.pids |= pids
        self._group_of[container] = group
