"""Which CPUs kubelet's static CPU manager takes: whole sockets, then whole cores, then single threads."""

from collections.abc import Iterable

from koordpy.agent.interface.facts import Processor


def take_by_topology(processors: Iterable[Processor], count: int) -> frozenset[int]:
    """Return `count` CPUs of free processors; none if there are fewer (kubelet's takeByTopology)."""
    cores: dict[tuple[int, int], list[int]] = {}
    sockets: dict[int, list[int]] = {}
    for processor in sorted(processors, key=lambda each: each.cpu):
        cores.setdefault((processor.socket, processor.core), []).append(processor.cpu)
        sockets.setdefault(processor.socket, []).append(processor.cpu)
    if not 0 < count <= sum(map(len, sockets.values())):
        return frozenset()
    taken: set[int] = set()
    for socket in sorted(sockets):
        if len(sockets[socket]) <= count - len(taken):
            taken.update(sockets[socket])
    free = [key for key in cores if not taken.issuperset(cores[key])]
    # Sockets with the fewest free CPUs first, so that the others stay whole.
    free.sort(key=lambda key: (len(sockets[key[0]]), *key))
    for key in list(free):
        if len(cores[key]) <= count - len(taken):
            taken.update(cores[key])
            free.remove(key)
    for key in free:
        taken.update(cores[key][: count - len(taken)])
    return frozenset(taken)
