"""Kills containers through their cgroups, where no container runtime is asked.

The effect is that of StopContainer with a grace period of 0: every process of the container gets SIGKILL at
once, and the kubelet then acts by the pod's restart policy. On cgroup v2 the kernel does it
(`cgroup.kill`); on v1, and on kernels before 5.14, each process of the container's cgroup and of those below
it is signalled through a pidfd, after it was checked once more that it belongs there.

A directory that is not that of a container below the pods' cgroup is refused, and so is a group with the
agent itself or with process 1. Where the kernel does not kill, processes are seen only with `hostPID`, and
those of other users are killed only with CAP_KILL.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import Counter

from koordpy.agent.interface.cgroups import CgroupError, Cgroups
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.api.core import ContainerStatus, Pod

log = logging.getLogger(__name__)

KILLED = Counter(
    "koordpy_agent_containers_killed_total", "Containers that evictions killed, or could not.", ["result"]
)

_SWEEPS = 8
"""How often a group's processes are listed: those that were forked in between are found next time."""


class ContainerKiller:
    """Kills the containers of one node's pods."""

    def __init__(
        self,
        cgroups: Cgroups,
        layout: CgroupLayout,
        *,
        own_pid: int | None = None,
        kill: Callable[[int, Callable[[], bool]], None] | None = None,
    ) -> None:
        """`kill` signals a process if, just before that, the given function returns true."""
        self._cgroups, self._layout = cgroups, layout
        self._protected = {1, os.getpid() if own_pid is None else own_pid}
        self._kill = kill or kill_if

    def kill(self, pod: Pod, message: str) -> bool:
        """Kill the running containers of a pod, in their order; return whether all were gone through.

        As in Koordinator, a container without a status or which does not run ends it, one that cannot be
        killed is logged, and init containers are left alone.
        """
        statuses = {status.name: status for status in pod.status.container_statuses}
        for container in pod.spec.containers:
            status = statuses.get(container.name)
            if status is None:
                log.error(
                    "%s: pod %s has no status of container %s", message, pod.metadata.key, container.name
                )
                return False
            if not _is_running(status):
                return False
            if not status.container_id:
                log.warning("%s: container %s of %s has no id", message, container.name, pod.metadata.key)
                continue
            try:
                self.kill_group(self._layout.container(self._layout.pod(pod), status.container_id))
                KILLED.labels("killed").inc()
            except (OSError, ValueError) as error:
                KILLED.labels("failed").inc()
                log.error(
                    "%s: cannot kill container %s of %s: %s", message, container.name, pod.metadata.key, error
                )
        return True

    def kill_group(self, directory: str) -> None:
        """Kill all processes of a container's cgroup directory.

        Raises CgroupError if it does not exist or cannot be read, or its processes are not seen or may not be
        killed; ValueError if it is not a container's, or has a process that must live.
        """
        parts = directory.split("/")
        above = self._layout.kubepods.split("/")
        if ".." in parts or "" in parts or parts[: len(above)] != above or len(parts) < len(above) + 2:
            raise ValueError(f"cgroup {directory!r} is not that of a container below {self._layout.kubepods}")
        folder = self._cgroups.path("cpu.stat", directory).parent
        self._check(folder, list(_processes(folder)))
        if self._cgroups.unified and _kill_by_kernel(folder):
            return
        before: set[int] = set()
        for _ in range(_SWEEPS):
            found = set(_processes(folder))
            self._check(folder, found)
            if 0 in found:
                raise ValueError(
                    f"{folder} has processes of another pid namespace; the agent needs hostPID to kill them"
                )
            if not found and not before:
                raise CgroupError(
                    f"{folder} has no process that the agent sees: it has ended, or the agent needs hostPID"
                )
            if not found or found == before:
                return
            for pid in found:
                try:
                    self._kill(pid, lambda pid=pid: pid in set(_processes(folder)))  # type: ignore[misc]
                except PermissionError:
                    raise CgroupError(
                        f"process {pid} of {folder} may not be killed: the agent needs CAP_KILL"
                    ) from None
            before = found

    def _check(self, folder: Path, pids: "set[int] | list[int]") -> None:
        if protected := self._protected.intersection(pids):
            raise ValueError(f"{folder} has process {min(protected)}, which is never killed")


def kill_if(pid: int, belongs: Callable[[], bool]) -> None:
    """Send SIGKILL to a process if a function says so, never to a later process with its pid."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if belongs():
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _is_running(status: ContainerStatus) -> bool:
    return status.state is not None and status.state.running is not None


def _kill_by_kernel(folder: Path) -> bool:
    """Return whether the kernel could be told to kill the group."""
    try:
        descriptor = os.open(folder / "cgroup.kill", os.O_WRONLY)
    except FileNotFoundError:
        return False
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)
    return True


def _processes(folder: Path) -> Iterator[int]:
    """Yield the processes of a group and of those below it. Raises CgroupError for a missing folder."""
    try:
        text = (folder / "cgroup.procs").read_text(encoding="ascii")
        below = sorted(each for each in folder.iterdir() if each.is_dir())
    except OSError as error:
        raise CgroupError(f"cannot list the processes of {folder}: {error.strerror}") from None
    yield from map(int, text.split())
    for each in below:
        try:
            yield from _processes(each)
        except CgroupError:
            if each.exists():
                raise
