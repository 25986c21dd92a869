"""Takes CPUs out of those that are free: whole cores or spread over cores, on few NUMA nodes and sockets.

Every step looks at the free CPUs in some order (`_Free`), takes the first group that has enough, or goes on.
All orders end in an id, so that the same input always gives the same CPUs. Source: Koordinator,
`pkg/scheduler/plugins/nodenumaresource/cpu_accumulator.go`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ..topology.cpu_topology import UNKNOWN, CPUTopology
from . import policies

NOT_ENOUGH: Final = "not enough cpus available to satisfy request"
FAILED: Final = "failed to allocate cpus"


class NotEnoughCPUs(Exception):
    """No CPUs were allocated; the message is why."""


class AllocatedCPU(NamedTuple):
    """How many pods have a CPU, and the exclusive policy of the last one."""

    ref_count: int
    exclusive: str = ""


def take(
    topology: CPUTopology,
    max_ref: int,
    available: Iterable[int],
    allocated: Mapping[int, AllocatedCPU],
    need: int,
    bind: str,
    exclusive: str,
    strategy: str,
) -> set[int]:
    """Return `need` of the available CPUs. Raises NotEnoughCPUs.

    There may be more than `need` of them, with FullPCPUs on a node of several sockets, if `need` is no
    multiple of a core's CPUs (spec section 5.3).
    """
    free = _Free(topology, max_ref, available, allocated, need, exclusive, strategy)
    if need < 1:
        return free.taken
    if need > len(free.cpus):
        raise NotEnoughCPUs(NOT_ENOUGH)
    whole = bind == policies.FULL_PCPUS
    if whole or topology.cpus_per_core == 1:
        _take_cores(free)
    if free.need > 0 and not whole:
        _take_spread(free)
    if free.need > 0:
        _take_any(free)
    if free.need > 0:
        raise NotEnoughCPUs(FAILED)
    return free.taken


def _take_cores(free: "_Free") -> None:
    """Take CPUs of wholly free cores: of one NUMA node, else of one socket, else of as few as possible."""
    topology = free.topology
    if free.need <= topology.cpus_per_node:
        for filtered in (True, False) if free.avoids_nodes else (False,):
            if free.take_from_first(free.cores_in_node(filtered)):
                return
    sockets = free.cores_in_socket()
    if free.need <= topology.cpus_per_socket and free.take_from_first(sockets):
        return
    rest: list[list[int]] = []
    for cpus in sorted(sockets, key=len, reverse=True):
        if free.need < len(cpus):
            rest.append(cpus)
        else:
            free.take(cpus)
            if free.need < 1:
                return
    core = topology.cpus_per_core
    if free.need < core:
        return
    for cpus in sorted(rest, key=len):
        # As in Koordinator, the first core of each further socket is taken even with less than a core to go.
        for at in range(0, len(cpus), core):
            free.take(cpus[at : at + core])
            if free.need < 1:
                return
            if free.need < core:
                break


def _take_spread(free: "_Free") -> None:
    """Take CPUs of different cores, of one NUMA node, else of one socket."""
    topology = free.topology
    if free.need <= topology.cpus_per_node:
        for filtered in (True, False):
            if free.take_from_first(free.cpus_in_node(filtered), spread=True):
                return
    if free.need <= topology.cpus_per_socket:
        for filtered in (True, False):
            if free.take_from_first(free.cpus_in_socket(filtered), spread=True):
                return


def _take_any(free: "_Free") -> None:
    """Take any CPUs, first of sockets that the taken ones are in."""
    for filtered in (True, False):
        free.take(free.spread(free.all_cpus(filtered))[: free.need])
        if free.need < 1:
            return


class _Free:
    """The free CPUs of an allocation in progress, and the orders in which they are considered.

    `filtered` orders leave out CPUs whose core or NUMA node has a pod with the same exclusive policy.
    """

    def __init__(
        self,
        topology: CPUTopology,
        max_ref: int,
        available: Iterable[int],
        allocated: Mapping[int, AllocatedCPU],
        need: int,
        exclusive: str,
        strategy: str,
    ) -> None:
        self.topology, self.need = topology, need
        self.taken: set[int] = set()
        self.cpus = sorted(topology.cpu_ids.intersection(available))
        """The free ones, ascending."""
        self._refs: dict[int, int] | None = None
        if max_ref > 1:
            self._refs = {cpu: allocated[cpu].ref_count if cpu in allocated else 0 for cpu in self.cpus}
        self._sign = 1 if strategy == policies.MOST_ALLOCATED else -1
        self._exclusive_cores: set[int] | None = None
        self._exclusive_nodes: set[int] | None = None
        found = [cpu for cpu, each in allocated.items() if each.exclusive == exclusive]
        if exclusive == policies.PCPU_LEVEL:
            self._exclusive_cores = {topology.cpus.get(cpu, UNKNOWN).core for cpu in found}
        elif exclusive == policies.NUMA_NODE_LEVEL:
            self._exclusive_nodes = {topology.cpus.get(cpu, UNKNOWN).node for cpu in found}

    @property
    def avoids_nodes(self) -> bool:
        """Whether filtered orders leave out NUMA nodes."""
        return bool(self._exclusive_nodes)

    def take(self, cpus: Sequence[int]) -> None:
        """Take CPUs out of the free ones."""
        self.taken.update(cpus)
        self.need -= len(cpus)
        if self.need > 0:
            gone = set(cpus)
            self.cpus = [cpu for cpu in self.cpus if cpu not in gone]
            if self._exclusive_cores is not None:
                self._exclusive_cores.update(map(self.topology.core_of.__getitem__, cpus))
            if self._exclusive_nodes is not None:
                self._exclusive_nodes.update(map(self.topology.node_of.__getitem__, cpus))

    def take_from_first(self, groups: Iterable[list[int]], *, spread: bool = False) -> bool:
        """Take what is needed from the first group that has enough; return whether there is one."""
        for cpus in groups:
            if len(cpus) >= self.need:
                self.take((self.spread(cpus) if spread else cpus)[: self.need])
                return True
        return False

    def spread(self, cpus: list[int]) -> list[int]:
        """Return CPUs in rounds over the cores: the first of each core, the second of each, and so on."""
        if len(cpus) <= self.topology.cpus_per_core:
            return cpus
        rounds: list[list[int]] = []
        seen: dict[int, int] = {}
        core_of = self.topology.core_of
        for cpu in cpus:
            core = core_of[cpu]
            at = seen.get(core, 0)
            seen[core] = at + 1
            if at == len(rounds):
                rounds.append([])
            rounds[at].append(cpu)
        return [cpu for each in rounds for cpu in each]

    # --- whole cores -----------------------------------------------------------------------------

    def cores_in_node(self, filtered: bool) -> list[list[int]]:
        """Return by NUMA node the CPUs of wholly free cores."""
        cpus = self._outside_exclusive_nodes() if filtered else self.cpus
        groups = self._whole_cores(cpus, self.topology.node_of)
        return [groups[node] for node in self._ordered_nodes(groups, cpus)]

    def cores_in_socket(self) -> list[list[int]]:
        """Return by socket the CPUs of wholly free cores."""
        groups = self._whole_cores(self.cpus, self.topology.socket_of)
        return [groups[socket] for socket in self._by_length(groups)]

    def _whole_cores(self, cpus: list[int], of: Mapping[int, int]) -> dict[int, list[int]]:
        """Return by NUMA node or socket the CPUs of wholly free cores, those with few pods first."""
        groups: dict[int, list[int]] = {}
        cores = list(map(sorted, self.topology.whole_cores(frozenset(cpus))))
        refs, core_of = self._core_refs(), self.topology.core_of
        if refs is not None:
            cores.sort(key=lambda core: refs[core_of[core[0]]])
        for core in cores:
            groups.setdefault(of[core[0]], []).extend(core)
        return groups

    # --- single CPUs -----------------------------------------------------------------------------

    def cpus_in_node(self, filtered: bool) -> list[list[int]]:
        """Return by NUMA node the CPUs; if filtered only the first of each core."""
        cpus = self._outside_exclusive_cores(self._outside_exclusive_nodes()) if filtered else self.cpus
        groups = self._grouped(cpus, self.topology.node_of)
        order = self._ordered_nodes(groups, cpus)
        return [self._first_of_cores(groups[node]) if filtered else groups[node] for node in order]

    def cpus_in_socket(self, filtered: bool) -> list[list[int]]:
        """Return by socket the CPUs; if filtered only the first of each core, on exclusive NUMA nodes too."""
        cpus = self._outside_exclusive_cores(self.cpus) if filtered else self.cpus
        groups = self._grouped(cpus, self.topology.socket_of)
        if filtered:
            groups = {socket: self._first_of_cores(listed) for socket, listed in groups.items()}
        return [groups[socket] for socket in self._by_length(groups)]

    def all_cpus(self, filtered: bool) -> list[int]:
        """Return all CPUs core by core, first those of sockets and NUMA nodes that have taken ones."""
        topology, sign = self.topology, self._sign
        cpus = self._outside_exclusive_cores(self._outside_exclusive_nodes()) if filtered else self.cpus
        in_socket = Counter(map(topology.socket_of.__getitem__, cpus))
        in_node = topology.count_by_node(cpus)
        taken = {socket: len(topology.cpus_of_socket(socket) & self.taken) for socket in in_socket}
        cores, refs = self._by_core(cpus), self._core_refs()

        def order(core: int) -> tuple[int, ...]:
            first = topology.cpus[cores[core][0]]
            socket = first.socket
            return (
                -taken[socket],
                sign * in_socket[socket],
                sign * in_node[first.node],
                len(cores[core]),
                socket,
                0 if refs is None else refs[core],
                core,
            )

        return [cpu for core in sorted(cores, key=order) for cpu in self._by_refs(cores[core])]

    def _by_core(self, cpus: list[int]) -> dict[int, list[int]]:
        cores: dict[int, list[int]] = {}
        core_of = self.topology.core_of
        for cpu in cpus:
            cores.setdefault(core_of[cpu], []).append(cpu)
        return cores

    def _ordered_nodes(self, groups: Mapping[int, list[int]], cpus: Iterable[int]) -> list[int]:
        """Return the NUMA nodes of groups by their length, then by how many of the CPUs their socket has."""
        if len(groups) < 2:
            return list(groups)
        socket_of, sign = self.topology.socket_of, self._sign
        in_socket = Counter(map(socket_of.__getitem__, cpus))

        def order(node: int) -> tuple[int, ...]:
            return sign * len(groups[node]), sign * in_socket[socket_of[groups[node][0]]], node

        return sorted(groups, key=order)

    def _grouped(self, cpus: list[int], of: Mapping[int, int]) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = {}
        for cpu in self._by_refs(cpus):
            groups.setdefault(of[cpu], []).append(cpu)
        return groups

    def _by_length(self, groups: Mapping[int, list[int]]) -> list[int]:
        return sorted(groups, key=lambda group: (self._sign * len(groups[group]), group))

    def _first_of_cores(self, cpus: list[int]) -> list[int]:
        core_of = self.topology.core_of
        first: dict[int, int] = {}
        for cpu in cpus:
            first.setdefault(core_of[cpu], cpu)
        return list(first.values())

    # --- references and exclusive policies -------------------------------------------------------

    def _by_refs(self, cpus: list[int]) -> list[int]:
        refs = self._refs
        return cpus if refs is None else sorted(cpus, key=lambda cpu: (refs[cpu], cpu))

    def _core_refs(self) -> Counter[int] | None:
        """Return by core how many pods its free CPUs have together, None if CPUs are not shared."""
        if self._refs is None:
            return None
        counts: Counter[int] = Counter()
        for cpu in self.cpus:
            counts[self.topology.core_of[cpu]] += self._refs[cpu]
        return counts

    def _outside_exclusive_nodes(self) -> list[int]:
        nodes, node_of = self._exclusive_nodes, self.topology.node_of
        return [cpu for cpu in self.cpus if node_of[cpu] not in nodes] if nodes else self.cpus

    def _outside_exclusive_cores(self, cpus: list[int]) -> list[int]:
        cores, core_of = self._exclusive_cores, self.topology.core_of
        return [cpu for cpu in cpus if core_of[cpu] not in cores] if cores else cpus
