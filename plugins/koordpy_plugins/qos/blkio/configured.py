"""The targets that NodeSLO and the annotations of pods configure."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from koordpy.agent.interface import CgroupLayout, PodMeta
from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.decoding import DecodeError
from koordpy.api.slo.reading import parse, read
from koordpy.api.slo.resource_qos import BlkIOQOS, BlockCfg, ResourceQOS, ResourceQOSStrategy

from .targets import Target

log = logging.getLogger(__name__)

ANNOTATION: Final = "koordinator.sh/blkioQOS"


def targets(
    strategy: ResourceQOSStrategy | None, pods: Iterable[PodMeta], layout: CgroupLayout
) -> Iterator[Target]:
    """Yield the best-effort directory, the root, and annotated pods, as far as there are settings."""
    if strategy is None:
        return
    for directory, of_class in ((layout.qos("BestEffort"), strategy.be_class), ("", strategy.cgroup_root)):
        blocks = _blocks(of_class)
        if blocks is not None:
            yield Target(directory, blocks)
    for meta in pods:
        settings = _of_pod(meta.pod)
        if settings is not None:
            yield Target(meta.cgroup_dir, settings.blocks, meta)


def unsupported(strategy: ResourceQOSStrategy) -> list[str]:
    """Return the classes whose blocks have no effect."""
    classes = (("lsrClass", strategy.lsr_class), ("lsClass", strategy.ls_class))
    return [name for name, of_class in classes if _blocks(of_class)]


def _blocks(of_class: ResourceQOS | None) -> list[BlockCfg] | None:
    if of_class is None or of_class.blkio_qos is None:
        return None
    return of_class.blkio_qos.blocks if of_class.blkio_qos.enable else []


def _of_pod(pod: Pod) -> BlkIOQOS | None:
    text = pod.metadata.annotations.get(ANNOTATION)
    if text is None or pod.status.phase != "Running" or not qos.qos_class_raw(pod):
        return None
    if not text:
        return BlkIOQOS()
    try:
        return read(BlkIOQOS, parse(text), f"annotation {ANNOTATION}")
    except DecodeError as error:
        log.warning("pod %s: %s", pod.metadata.key, error)
        return None
