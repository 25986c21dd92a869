"""What the resctrl strategy wants in the control groups LSR, LS and BE.

Source: Koordinator, `pkg/koordlet/qosmanager/plugins/resctrl`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from koordpy.agent.interface import CgroupError, CgroupLayout, PodMeta
from koordpy.agent.toolkit import resctrl
from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.qos import QoSClass
from koordpy.api.slo.resource_qos import ResctrlQOSCfg, ResourceQOS, ResourceQOSStrategy

log = logging.getLogger(__name__)

GROUPS: Final = ("LSR", "LS", "BE")

_GROUP_OF: Final = {
    QoSClass.LSE: "LSR",
    QoSClass.LSR: "LSR",
    QoSClass.LS: "LS",
    QoSClass.BE: "BE",
}


@dataclass(frozen=True)
class Caches:
    """The caches of a node. `cbm` is the text of info/L3/cbm_mask; `count` is the number of L3 caches."""

    cbm: str
    vendor: str
    count: int
    ids: tuple[int, ...]


def schemata(strategy: ResourceQOSStrategy, caches: Caches) -> Iterator[tuple[str, str]]:
    """Yield group and line of each schemata that is configured, cache before bandwidth, group by group.

    The values of a class count whether it is enabled or not: those of a disabled class are neutral.
    """
    try:
        cbm = resctrl.mask_of_cbm(caches.cbm)
    except ValueError as error:
        log.warning("resctrl: %s", error)
        return
    if caches.count <= 0:
        return
    for group in GROUPS:
        settings = _settings(strategy, group)
        if settings is None:
            continue
        start, end = settings.cat_range_start_percent, settings.cat_range_end_percent
        if start is not None and end is not None:
            try:
                mask = resctrl.cache_mask(cbm, start, end)
            except ValueError as error:
                log.warning("resctrl group %s: %s", group, error)
            else:
                yield group, resctrl.cache_line(dict.fromkeys(caches.ids, mask))
        limit = resctrl.class_bandwidth(settings.mba_percent, caches.vendor)
        if limit is not None:
            yield group, resctrl.bandwidth_line(dict.fromkeys(caches.ids, limit))


def tasks(
    strategy: ResourceQOSStrategy,
    pods: Iterable[PodMeta],
    grouped: Mapping[str, frozenset[int]],
    directories: Callable[[PodMeta], Iterable[str]],
    read: Callable[[str], Iterable[int]],
) -> dict[str, list[int]]:
    """Return the threads to add to each group, ascending.

    `grouped` are the threads that are in a group already, `directories` returns the container cgroups of a
    pod and `read` the threads of one; it raises CgroupError if it cannot. A group without threads to add is
    left out.
    """
    found: dict[str, list[int]] = {}
    for meta in pods:
        group = group_of(meta.pod, strategy)
        if group is None:
            continue
        known = grouped.get(group, frozenset())
        for directory in directories(meta):
            try:
                found.setdefault(group, []).extend(resctrl.new_tasks(read(directory), known))
            except CgroupError as error:
                log.debug("resctrl: pod %s: %s", meta.pod.metadata.key, error)
    return {group: sorted(found[group]) for group in GROUPS if found.get(group)}


def group_of(pod: Pod, strategy: ResourceQOSStrategy) -> str | None:
    """Return the group of an active pod whose class is enabled; None for one with a group of its own."""
    if resctrl.ANNOTATION in pod.metadata.annotations or pod.status.phase not in ("Pending", "Running"):
        return None
    group = _GROUP_OF.get(qos.qos_class(pod))
    settings = _settings(strategy, group) if group is not None else None
    return group if settings is not None and settings.enable else None


def container_directories(meta: PodMeta, layout: CgroupLayout) -> Iterator[str]:
    """Yield the cgroups of a pod's main containers, in the order of their statuses."""
    known = {container.name for container in meta.pod.spec.containers}
    for status in meta.pod.status.container_statuses:
        if status.name in known:
            try:
                yield layout.container(meta.cgroup_dir, status.container_id)
            except ValueError as error:
                log.debug("resctrl: pod %s: %s", meta.pod.metadata.key, error)


def _settings(strategy: ResourceQOSStrategy, group: str) -> ResctrlQOSCfg | None:
    classes: dict[str, ResourceQOS | None] = {
        "LSR": strategy.lsr_class,
        "LS": strategy.ls_class,
        "BE": strategy.be_class,
    }
    of_class = classes[group]
    return of_class.resctrl_qos if of_class is not None else None
