"""The CPUs of a node: their cores, NUMA nodes and sockets.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/cpu_topology.go`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from koordpy.api import extension
from koordpy.lib import cpuset, go_json
from koordpy.lib.bounded_cache import cached

MOST_CPUS: Final = cpuset.LAST_OF_RANGE + 1
"""CPUs have smaller ids: a pod's annotation with others could not be read again."""

INVALID_TOPOLOGY: Final = "node(s) invalid CPU Topology"

_MOST_TEXT: Final = 1 << 20


class InvalidTopology(Exception):
    """The CPUs of a node are not known."""

    def __init__(self) -> None:
        super().__init__(INVALID_TOPOLOGY)


class CPU(NamedTuple):
    """A logical CPU. `core` is unique in the node: the socket, times 65536, with the core's id there."""

    cpu: int
    core: int
    node: int
    socket: int

    @classmethod
    def of(cls, socket: int, node: int, core: int, cpu: int) -> "CPU":
        """Return a CPU from ids as they are reported, with the id of its core within its socket."""
        return cls(cpu, socket << 16 | core, node, socket)


UNKNOWN = CPU(0, 0, 0, 0)
"""What an allocated CPU that its topology does not have counts as, but for its id."""


class CPUTopology:
    """The CPUs of a node. Never changes; nodes whose CPUs are the same share one.

    The averages (CPUs by core, NUMA node and socket) are rounded down; on irregular machines they are of no
    single core. `cpus_by_core` and the sets of NUMA nodes and sockets are ascending.
    """

    __slots__ = (
        "_equal_cores",
        "_of_node",
        "_of_socket",
        "core_of",
        "cpu_ids",
        "cpus",
        "cpus_by_core",
        "cpus_per_core",
        "cpus_per_node",
        "cpus_per_socket",
        "is_regular",
        "is_valid",
        "node_of",
        "nodes",
        "num_cores",
        "num_cpus",
        "num_nodes",
        "num_sockets",
        "socket_of",
    )

    def __init__(self, cpus: Iterable[CPU]) -> None:
        """Of CPUs with the same id the last one counts, but cores, NUMA nodes and sockets of all."""
        reported = list(cpus)
        self.cpus: Mapping[int, CPU] = {each.cpu: each for each in sorted(reported, key=lambda cpu: cpu.cpu)}
        self.cpu_ids = frozenset(self.cpus)
        self.num_cpus = len(self.cpus)
        self.num_cores = len({(each.socket, each.node, each.core) for each in reported})
        self.num_nodes = len({(each.socket, each.node) for each in reported})
        self.num_sockets = len({each.socket for each in reported})
        self.is_valid = bool(self.cpus)
        self.cpus_per_core = self.num_cpus // self.num_cores if reported else 0
        self.cpus_per_node = self.num_cpus // self.num_nodes if reported else 0
        self.cpus_per_socket = self.num_cpus // self.num_sockets if reported else 0
        self.core_of: Mapping[int, int] = {cpu: each.core for cpu, each in self.cpus.items()}
        self.node_of: Mapping[int, int] = {cpu: each.node for cpu, each in self.cpus.items()}
        self.socket_of: Mapping[int, int] = {cpu: each.socket for cpu, each in self.cpus.items()}
        self.cpus_by_core = _sets(self.core_of)
        self._of_node = _sets(self.node_of)
        self._of_socket = _sets(self.socket_of)
        self.nodes: tuple[int, ...] = tuple(self._of_node)
        self._equal_cores = all(len(cpus) == self.cpus_per_core for cpus in self.cpus_by_core.values())
        self.is_regular = self._is_regular()
        """Whether cores have equally many CPUs, and no core or NUMA node is part of two others."""

    def _is_regular(self) -> bool:
        return (
            self._equal_cores
            and all(len({self.node_of[cpu] for cpu in cpus}) == 1 for cpus in self.cpus_by_core.values())
            and all(len({self.socket_of[cpu] for cpu in cpus}) == 1 for cpus in self._of_node.values())
        )

    def cpus_of_node(self, node: int) -> frozenset[int]:
        """Return the CPUs of a NUMA node."""
        return self._of_node.get(node, _NO_CPUS)

    def cpus_of_socket(self, socket: int) -> frozenset[int]:
        """Return the CPUs of a socket."""
        return self._of_socket.get(socket, _NO_CPUS)

    def whole_cores(self, cpus: frozenset[int]) -> list[frozenset[int]]:
        """Return the cores, ascending, of which as many CPUs as a core has are among some: these CPUs."""
        cores = self.cpus_by_core.values()
        if self._equal_cores:
            return [core for core in cores if core <= cpus]
        return [there for core in cores if 0 < len(there := core & cpus) == self.cpus_per_core]

    def count_by_node(self, cpus: Iterable[int]) -> Counter[int]:
        """Return how many of some CPUs, all of the topology, each NUMA node has."""
        return Counter(map(self.node_of.__getitem__, cpus))


_NO_CPUS: frozenset[int] = frozenset()


def _sets(of: Mapping[int, int]) -> Mapping[int, frozenset[int]]:
    groups: dict[int, list[int]] = {}
    for cpu, group in of.items():
        groups.setdefault(group, []).append(cpu)
    return {group: frozenset(groups[group]) for group in sorted(groups)}


NO_TOPOLOGY = CPUTopology(())
"""The topology of nodes that report none: it is not valid."""


def of_annotations(annotations: Mapping[str, str]) -> CPUTopology:
    """Return the topology in the annotations of a NodeResourceTopology, an invalid one if there is none.

    Raises ValueError, also for more than `MOST_CPUS` CPUs, or other ids than these: what a node reports costs
    no more than that.
    """
    text = annotations.get(extension.ANNOTATION_NODE_CPU_TOPOLOGY)
    if text is None:
        return NO_TOPOLOGY
    try:
        if len(text) > _MOST_TEXT:
            raise ValueError(f"{len(text)} characters: expected at most {_MOST_TEXT}")
        return _parsed(text)
    except ValueError as error:
        raise ValueError(f"annotation {extension.ANNOTATION_NODE_CPU_TOPOLOGY}: {error}") from None


@cached("cpu_topologies", 16 << 20)
def _parsed(text: str) -> CPUTopology:
    document = go_json.members(go_json.parse(text), "value")
    detail = go_json.array(document.get("detail"), "detail") or []
    if len(detail) > MOST_CPUS:
        raise ValueError(f"{len(detail)} CPUs: expected at most {MOST_CPUS}")
    return CPUTopology(_cpu(item, f"detail[{at}]") for at, item in enumerate(detail))


def _cpu(item: object, place: str) -> CPU:
    members = go_json.members(item, place)
    socket, node, core, cpu = (
        go_json.integer(members.get(name), f"{place}.{name}", 32) for name in ("socket", "node", "core", "id")
    )
    if not 0 <= cpu < MOST_CPUS:
        raise ValueError(f"{place}.id: {cpu}: expected a CPU from 0 to {MOST_CPUS - 1}")
    return CPU.of(socket, node, core, cpu)
