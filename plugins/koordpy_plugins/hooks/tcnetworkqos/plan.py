"""What traffic control and the classification of packets are to be on a node. Pure functions.

An HTB qdisc at the root of the node's interface (`1:`) has a class for the whole node (`1:1`), below it one
for each of SYSTEM (`1:2`, which gets what nobody classified), LS (`1:3`) and BE (`1:4`), and one for each pod
with a limit of its own. Classes borrow from each other up to their limit, SYSTEM first and BE last.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/tc`.
"""

import hashlib
import ipaddress
import logging
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.agent.interface import PodMeta
from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.qos import QoSClass

from . import bandwidth
from .bandwidth import NodeBandwidth

log = logging.getLogger(__name__)

QDISC: Final = 0x1_0000
ROOT: Final = QDISC | 1
SYSTEM: Final = QDISC | 2
LS: Final = QDISC | 3
BE: Final = QDISC | 4
DEFAULT_MINOR: Final = 2
FIRST_POD: Final = QDISC | 0x10
LAST_POD: Final = QDISC | 0xFFFE

SMALLEST_RATE: Final = 1000
"""Bytes a second of a class without a request: the kernel refuses 0."""

_CLASS_OF: Final = {
    QoSClass.SYSTEM: SYSTEM,
    QoSClass.LSE: LS,
    QoSClass.LSR: LS,
    QoSClass.LS: LS,
    QoSClass.BE: BE,
}
_PRIORITY: Final = {SYSTEM: 1, LS: 2, BE: 3}


@dataclass(frozen=True)
class TrafficClass:
    """An HTB class: its parent, what it is guaranteed and may have (bytes a second), and its priority."""

    parent: int
    rate: int
    ceil: int
    priority: int


@dataclass(frozen=True)
class Plan:
    """Everything that is wanted."""

    classes: Mapping[int, TrafficClass] = field(default_factory=dict)
    """By handle, parents first."""
    addresses: Mapping[str, int] = field(default_factory=dict)
    """The class of packets by their source address."""
    class_ids: Mapping[str, int] = field(default_factory=dict)
    """The class of pods by UID, for `net_cls.classid`."""

    @property
    def digest(self) -> str:
        """Return a short text that differs for other classifications."""
        lines = [f"{address}={handle}" for address, handle in sorted(self.addresses.items())]
        lines += [str(handle) for handle in sorted(self.classes)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def plan(node: NodeBandwidth, pods: Iterable[PodMeta]) -> Plan:
    """Return what is wanted on a node with a total bandwidth greater than 0."""
    total = _bytes(node.total)
    system = max(node.total - node.ls.request - node.be.request, 0)
    classes = {
        ROOT: TrafficClass(QDISC, total, total, 0),
        SYSTEM: _leaf(SYSTEM, system, node.total, node.total),
        LS: _leaf(LS, node.ls.request, node.ls.limit, node.total),
        BE: _leaf(BE, node.be.request, node.be.limit, node.total),
    }
    class_ids: dict[str, int] = {}
    limits: dict[str, tuple[int, int]] = {}
    active: list[Pod] = []
    for meta in pods:
        pod = meta.pod
        of_class = _CLASS_OF.get(qos.qos_class_raw(pod))
        if of_class is None or pod.status.phase not in ("Pending", "Running"):
            continue
        active.append(pod)
        class_ids[pod.metadata.uid] = of_class
        try:
            limit = bandwidth.egress_limit(pod.metadata.annotations)
        except ValueError as error:
            log.info("pod %s has no bandwidth of its own: %s", pod.metadata.key, error)
            continue
        if limit > 0:
            limits[pod.metadata.uid] = limit, of_class
    for uid, handle in handles(limits).items():
        limit, of_class = limits[uid]
        amount = _bytes(limit)
        classes[handle] = TrafficClass(ROOT, amount, amount, _PRIORITY[of_class])
        class_ids[uid] = handle
    addresses = {
        address: class_ids[pod.metadata.uid] for pod in active if (address := _address(pod)) is not None
    }
    return Plan(classes, addresses, class_ids)


def handles(uids: Iterable[str]) -> dict[str, int]:
    """Return the handle of each pod with a class of its own: the same in every process, and never twice."""
    size = LAST_POD - FIRST_POD + 1
    taken: dict[int, str] = {}
    for uid in sorted(uids)[:size]:
        handle = FIRST_POD + zlib.crc32(uid.encode()) % size
        while handle in taken:
            handle = FIRST_POD + (handle - FIRST_POD + 1) % size
        taken[handle] = uid
    return {uid: handle for handle, uid in taken.items()}


def _leaf(handle: int, request: int, limit: int, total: int) -> TrafficClass:
    rate = _bytes(request)
    return TrafficClass(ROOT, rate, max(_bytes(limit or total), rate), _PRIORITY[handle])


def _bytes(bits: int) -> int:
    return max(bits // 8, SMALLEST_RATE)


def _address(pod: Pod) -> str | None:
    """Return the address of a pod's packets; None where it is the node's, or not known."""
    text = pod.status.pod_ip
    if pod.spec.host_network or not text:
        return None
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        log.warning("pod %s has the invalid address %r", pod.metadata.key, text[:64])
        return None
