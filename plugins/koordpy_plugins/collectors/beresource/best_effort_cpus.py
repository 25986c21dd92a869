"""How many CPUs best-effort containers may use."""

from koordpy.agent.interface import Cgroups, Executor
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.lib import cpuset

_CONTAINER_DEPTH = 2
_LISTED_ROUNDS = 10
"""The rounds after which folders are listed anew; they are when pods change, too."""

_READ_ROUNDS = 5
"""The rounds after which all files are read, even if nothing says that one has changed."""


class BestEffortCPUs:
    """The smallest CPU set of a container's cgroup below the besteffort one, or of that itself.

    Kubelet gives sandboxes all CPUs, which is why the smallest counts (Koordinator, GetBECgroupCurCPUSet).
    Files of containers are read again when the agent has written anything, the set of the besteffort cgroup
    or the folders have changed; and every few rounds, because others may write them.
    """

    def __init__(self, cgroups: Cgroups, executor: Executor, directory: str) -> None:
        self._cgroups, self._executor, self._directory = cgroups, executor, directory
        self._files: dict[str, KeptFile] = {}
        self._counts: dict[bytes, int] = {}
        """The number of CPUs by text: there are only a few texts."""
        self._rounds_left = 0
        self._smallest: tuple[bytes, int, int] | None = None
        """The text of the besteffort cgroup, the executor's revision when all were read, and the result."""
        self._unread_rounds = 0

    def forget(self) -> None:
        """List the folders again before the next count."""
        self._rounds_left = 0

    def count(self) -> int:
        """Return the number of CPUs. Raises OSError or ValueError if any of the files cannot be read."""
        if self._rounds_left <= 0:
            self._list()
        self._rounds_left -= 1
        try:
            return self._count()
        except OSError:
            self._list()  # a container ended
            return self._count()

    def _count(self) -> int:
        text, revision = self._files[self._directory].read(), self._executor.revision
        known = self._smallest
        self._unread_rounds += 1
        if known is not None and known[:2] == (text, revision) and self._unread_rounds < _READ_ROUNDS:
            return known[2]
        self._smallest = None
        smallest = min(map(self._read, self._files.values()))
        self._smallest = text, revision, smallest
        self._unread_rounds = 0
        return smallest

    def _list(self) -> None:
        self._smallest = None
        directories = [
            path
            for path, depth in self._cgroups.walk(self._directory, _CONTAINER_DEPTH)
            if depth == _CONTAINER_DEPTH
        ]
        directories.append(self._directory)
        self._files = {
            directory: self._files.get(directory) or KeptFile(self._path(directory))
            for directory in directories
        }
        self._counts.clear()
        self._rounds_left = _LISTED_ROUNDS

    def _path(self, directory: str) -> str:
        path = self._cgroups.path("cpuset.cpus", directory)
        return str(path.with_name("cpuset.cpus.effective") if self._cgroups.unified else path)

    def _read(self, file: KeptFile) -> int:
        text = file.read()
        count = self._counts.get(text)
        if count is None:
            count = self._counts[text] = len(cpuset.parse(text.decode("ascii").strip()))
        return count
