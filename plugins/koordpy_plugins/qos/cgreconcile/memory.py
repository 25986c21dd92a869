"""What memory QoS wants in the directories of a pod, its containers and the QoS classes.

Amounts are bytes in 64 bits; percentages are rounded toward zero. A setting that is not set is not written.
Source: Koordinator, `pkg/koordlet/qosmanager/plugins/cgreconcile/cgroup_reconcile.go`.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koordpy.agent.interface import CgroupLayout, PodMeta, Update
from koordpy.api import qos, resources
from koordpy.api.batch_resources import container_amount, pod_batch_limit, pod_batch_request
from koordpy.api.core import Container, Pod
from koordpy.api.extension import BATCH_MEMORY
from koordpy.api.qos import KubeQoS, QoSClass
from koordpy.api.resource_names import MEMORY
from koordpy.api.slo.resource_qos import MemoryQOS
from koordpy.lib import int64

log = logging.getLogger(__name__)

REASON: Final = "cgroup reconcile"

MIN: Final = "memory.min"
LOW: Final = "memory.low"
HIGH: Final = "memory.high"
PAGE_CACHE_ENABLE: Final = "memory.pagecache_limit.enable"
PAGE_CACHE_SIZE: Final = "memory.pagecache_limit.size"
PAGE_CACHE_SYNC: Final = "memory.pagecache_limit.sync"

FILES: Final = (
    MIN,
    LOW,
    HIGH,
    "memory.wmark_ratio",
    "memory.wmark_scale_factor",
    "memory.wmark_min_adj",
    "memory.priority",
    "memory.use_priority_oom",
    "memory.oom.group",
    PAGE_CACHE_ENABLE,
    PAGE_CACHE_SIZE,
    PAGE_CACHE_SYNC,
)
"""All files, in the order in which they are written in a directory."""

KUBE_QOS: Final = (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT)
"""The order of the QoS directories: the Guaranteed one is the parent of the others."""


@dataclass(frozen=True, slots=True)
class Value:
    """The wanted number in a file, and how it was computed."""

    number: int
    formula: str = ""


@dataclass(frozen=True)
class PodMemory:
    """What is wanted for one pod, and what it adds to the protection of its QoS class."""

    kube_qos: str
    minimum: int | None
    low: int | None
    pod: Sequence[Update]
    containers: Sequence[Update]


def of_pod(
    meta: PodMeta, settings: MemoryQOS, layout: CgroupLayout, node_memory: int, page_size: int
) -> PodMemory:
    """Return what is wanted for a pod and its containers that have an id.

    `node_memory` are the allocatable bytes of the node. Raises QuantityError (a ValueError).
    """
    pod = meta.pod
    batch = qos.qos_class_raw(pod) == QoSClass.BE
    if batch:
        request, limit = pod_batch_request(pod, BATCH_MEMORY), pod_batch_limit(pod, BATCH_MEMORY)
    else:
        requested = resources.pod_requests(pod).get(MEMORY)
        request = requested.value() if requested is not None else 0
        limited = resources.pod_limits(pod).get(MEMORY)
        limit = limited.value() if limited is not None else -1
    wanted = _protection(settings, request) | _static(settings) | _page_cache(settings, limit)
    _raise_low(wanted)
    containers: list[Update] = []
    ids = _container_ids(pod)
    for container in pod.spec.containers:
        try:
            directory = layout.container(meta.cgroup_dir, ids.get(container.name, ""))
        except ValueError as error:
            log.debug("memory QoS of %s: container %s: %s", pod.metadata.key, container.name, error)
            continue
        values = _of_container(container, settings, batch, node_memory, page_size)
        containers.extend(_updates(directory, values))
    return PodMemory(
        kube_qos=qos.kube_qos(pod),
        minimum=_share(request, settings.min_limit_percent),
        low=_share(request, settings.low_limit_percent),
        pod=list(_updates(meta.cgroup_dir, wanted)),
        containers=containers,
    )


def of_qos(
    pods: Iterable[PodMemory], classes: Mapping[str, MemoryQOS | None], layout: CgroupLayout
) -> list[Update]:
    """Return what is wanted in the QoS directories, of which those without settings stay as they are."""
    minimum: dict[str, int] = {}
    low: dict[str, int] = {}
    for pod in pods:
        for total, amount in ((minimum, pod.minimum), (low, pod.low)):
            if amount is not None:
                total[pod.kube_qos] = int64.wrap(total.get(pod.kube_qos, 0) + amount)
    for total in (minimum, low):
        if total:
            total[KubeQoS.GUARANTEED] = int64.wrap(sum(total.get(kube_qos, 0) for kube_qos in KUBE_QOS))
    updates: list[Update] = []
    for kube_qos in KUBE_QOS:
        settings = classes.get(kube_qos)
        if settings is None:
            continue
        values = {
            file: Value(total[kube_qos], f"sum over {'all' if kube_qos == KUBE_QOS[0] else kube_qos} pods")
            for file, total in ((MIN, minimum), (LOW, low))
            if kube_qos in total
        }
        updates.extend(_updates(layout.qos(kube_qos), values | _killing(settings)))
    return updates


def _of_container(
    container: Container, settings: MemoryQOS, batch: bool, node_memory: int, page_size: int
) -> dict[str, Value]:
    name = BATCH_MEMORY if batch else MEMORY
    request = max(container_amount(container.resources, "requests", name), 0)
    limit = container_amount(container.resources, "limits", name)
    values = _protection(settings, request) | _static(settings)
    if settings.throttling_percent is not None:
        values[HIGH] = _high(request, limit, settings.throttling_percent, node_memory, page_size)
    _raise_low(values)
    least, high = values.get(MIN), values.get(HIGH)
    if least is not None and high is not None and 0 < high.number < least.number:
        values[HIGH] = Value(least.number, f"memory.min, because {high.formula} is less")
    return values


def _high(request: int, limit: int, percent: int, node_memory: int, page_size: int) -> Value:
    """Throttle from a percentage of the way from request to limit (of the node, if there is no limit)."""
    if percent == 0:
        return Value(int64.MAX, "throttling 0%: no limit")
    kind, top = ("limit", limit) if limit > 0 else ("node's allocatable", node_memory)
    part = int64.quotient(int64.wrap(int64.wrap(top - request) * percent), 100)
    number = int64.quotient(int64.wrap(request + part), page_size) * page_size
    return Value(number, f"request {request} + {percent}% of ({kind} {top} - request), whole pages")


def _protection(settings: MemoryQOS, request: int) -> dict[str, Value]:
    return {
        file: Value(_percent(request, percent), f"{percent}% of request {request}")
        for file, percent in ((MIN, settings.min_limit_percent), (LOW, settings.low_limit_percent))
        if percent is not None
    }


def _raise_low(values: dict[str, Value]) -> None:
    """A low protection is at least the minimal one."""
    least, low = values.get(MIN), values.get(LOW)
    if least is not None and low is not None and 0 < low.number < least.number:
        values[LOW] = Value(least.number, f"memory.min, because {low.formula} is less")


def _static(settings: MemoryQOS) -> dict[str, Value]:
    """Settings that are written as they are, in pods and containers."""
    own = {
        "memory.wmark_ratio": settings.wmark_ratio,
        "memory.wmark_scale_factor": settings.wmark_scale_permill,
        "memory.wmark_min_adj": settings.wmark_min_adj,
    }
    return {file: Value(number) for file, number in own.items() if number is not None} | _killing(settings)


def _killing(settings: MemoryQOS) -> dict[str, Value]:
    """Settings of the OOM killer."""
    own = {
        "memory.priority": settings.priority,
        "memory.use_priority_oom": settings.priority_enable,
        "memory.oom.group": settings.oom_kill_group,
    }
    return {file: Value(number) for file, number in own.items() if number is not None}


def _page_cache(settings: MemoryQOS, limit: int) -> dict[str, Value]:
    """The limit of the page cache of a pod: a size, else a percentage of the memory limit (-1 for none)."""
    size, formula = settings.page_cache_limit_size, "pageCacheLimitSize"
    if size is not None and 0 < limit < size:
        size, formula = limit, f"pageCacheLimitSize {size}, at most limit {limit}"
    if size is None and settings.page_cache_limit_percent is not None and limit > 0:
        size = _percent(limit, settings.page_cache_limit_percent)
        formula = f"{settings.page_cache_limit_percent}% of limit {limit}"
    values: dict[str, Value] = {}
    if size is not None and size > 0:
        values = {
            PAGE_CACHE_ENABLE: Value(1),
            PAGE_CACHE_SIZE: Value(size, formula),
            PAGE_CACHE_SYNC: Value(int(bool(settings.page_cache_reclaim_sync))),
        }
    elif size is not None:
        values = {PAGE_CACHE_ENABLE: Value(0), PAGE_CACHE_SIZE: Value(0, formula)}
    if settings.page_cache_enable is not None:
        values[PAGE_CACHE_ENABLE] = Value(int(settings.page_cache_enable))
    return values


def _share(request: int, percent: int | None) -> int | None:
    return None if percent is None else _percent(request, percent)


def _percent(amount: int, percent: int) -> int:
    return int64.quotient(int64.wrap(amount * percent), 100)


def _container_ids(pod: Pod) -> dict[str, str]:
    """The first id of every container name; statuses of init containers come first."""
    ids: dict[str, str] = {}
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.container_id:
            ids.setdefault(status.name, status.container_id)
    return ids


def _updates(directory: str, values: Mapping[str, Value]) -> Iterator[Update]:
    for file in FILES:
        value = values.get(file)
        if value is not None:
            yield Update(file, directory, str(value.number), REASON, value.formula)
