"""The choice of the CPUs for best-effort pods. Pure functions.

Rules: Koordinator, pkg/koordlet/qosmanager/plugins/cpusuppress (adjustByCPUSet,
calculateBESuppressCPUSetPolicy): spread over NUMA nodes, whole cores (hyper-thread pairs) first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from koordpy.agent.interface import Processor


def by_pool(
    processors: Iterable[Processor], pools: Mapping[int, str], excluded: Collection[int]
) -> tuple[list[Processor], list[Processor]]:
    """Return the processors of LSR pods and the shared ones, without those of LSE pods and excluded ones.

    `pools` maps a CPU to the QoS class of the pod that is bound to it.
    """
    lsr: list[Processor] = []
    shared: list[Processor] = []
    for processor in processors:
        pool = pools.get(processor.cpu)
        if processor.cpu in excluded or pool == "LSE":
            continue
        (lsr if pool == "LSR" else shared).append(processor)
    return lsr, shared


def choose(count: int, lsr: Sequence[Processor], shared: Sequence[Processor]) -> frozenset[int]:
    """Return `count` CPUs, taken from both kinds in proportion; none from a kind with too few."""
    total = len(lsr) + len(shared)
    if total == 0:
        return frozenset()
    from_lsr = count * len(lsr) // total
    return frozenset(pick(from_lsr, lsr)) | frozenset(pick(count - from_lsr, shared))


def pick(count: int, processors: Sequence[Processor]) -> list[int]:
    """Return `count` CPUs in the order of their choice; none when there are fewer.

    One bucket per NUMA node and socket, the largest first. First, pairs of one core are taken from the
    buckets in turn, then single CPUs, continuing with the bucket after the last pair.
    """
    if count <= 0 or len(processors) < count:
        return []
    buckets = _buckets(processors)
    used: set[int] = set()
    taken: list[int] = []
    turn = 0
    mark = -1
    while count - len(taken) > 1:
        need = count - len(taken)
        if turn == 0:
            if mark == need:
                break
            mark = need
        pair = _free_pair(buckets[turn], used)
        if pair is not None:
            taken += pair
            used.update(pair)
        turn = (turn + 1) % len(buckets)
    start = turn
    mark = -1
    while count - len(taken) > 0:
        need = count - len(taken)
        if turn == start:
            if mark == need:
                break
            mark = need
        free = next((p.cpu for p in buckets[turn] if p.cpu not in used), None)
        if free is not None:
            taken.append(free)
            used.add(free)
        turn = (turn + 1) % len(buckets)
    return taken


def _buckets(processors: Sequence[Processor]) -> list[list[Processor]]:
    size = len(processors)
    groups: dict[int, list[Processor]] = {}
    for processor in processors:
        groups.setdefault((processor.node + size) * (processor.socket + 1), []).append(processor)
    for group in groups.values():
        group.sort(key=lambda p: (p.core, p.cpu))
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].cpu))


def _free_pair(bucket: Sequence[Processor], used: Collection[int]) -> tuple[int, int] | None:
    # Only the first of the two is checked, as in Koordinator (and in the parity vectors).
    for first, second in pairwise(bucket):
        if first.cpu not in used and first.core == second.core:
            return first.cpu, second.cpu
    return None
