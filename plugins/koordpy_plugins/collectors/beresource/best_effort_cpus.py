"""How many CPUs best-effort containers may use."""

from koordpy.agent.interface import Cgroups
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.lib import cpuset

_CONTAINER_DEPTH = 2
_LISTED_ROUNDS = 10
"""The rounds after which folders are listed anew; they are when pods change, too."""


class BestEffortCPUs:
    """The smallest CPU set of a container's cgroup below the besteffort one, or of that itself.

    Kubelet gives sandboxes all CPUs, which is why the smallest counts (Koordinator, GetBECgroupCurCPUSet).
    """

    def __init__(self, cgroups: Cgroups, directory: str) -> None:
        self._cgroups, self._directory = cgroups, directory
        self._files: dict[str, KeptFile] = {}
        self._counts: dict[bytes, int] = {}
        """The number of CPUs by text: there are only a few texts."""
        self._rounds_left = 0

    def forget(self) -> None:
        """List the folders again before the next count."""
        self._rounds_left = 0

    def count(self) -> int:
        """Return the number of CPUs. Raises OSError or ValueError if any of the files cannot be read."""
        if self._rounds_left <= 0:
            self._list()
        self._rounds_left -= 1
        try:
            return min(map(self._read, self._files.values()))
        except OSError:
            self._list()  # a container ended
            return min(map(self._read, self._files.values()))

    def _list(self) -> None:
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
