"""Block I/O and resctrl: `koordpy_plugins.qos.{blkio,resctrl}`, `koordpy.agent.toolkit.resctrl`."""

from collections import defaultdict
from typing import Any

from koordpy.agent.interface import CgroupError, CgroupLayout, PodMeta
from koordpy.agent.interface.facts import LocalStorageInfo
from koordpy.agent.toolkit import resctrl
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.api.slo.resource_qos import ResourceQOSStrategy
from koordpy_plugins.qos.blkio.plugin import Inputs
from koordpy_plugins.qos.blkio.plugin import wanted as blkio_wanted
from koordpy_plugins.qos.resctrl import wanted

LAYOUT = CgroupLayout(systemd=True)


def run(case: dict[str, Any], tag: str | None) -> Any:
    return {"blkio": blkio, "resctrl": classes, "podAnnotation": annotation}[case["kind"]](case)


def strategy_of(case: dict[str, Any]) -> ResourceQOSStrategy | None:
    document = case.get("resourceQOSStrategy")
    return None if document is None else decode(ResourceQOSStrategy, document)


def blkio(case: dict[str, Any]) -> Any:
    found = case.get("storage")
    storage = found and LocalStorageInfo(
        disk_numbers=found.get("DiskNumberMap") or {},
        partition_disks=found.get("PartitionDiskMap") or {},
        volume_group_disks=found.get("VGDiskMap") or {},
        logical_volume_groups=found.get("LVMapperVGMap") or {},
        mount_devices=found.get("MPDiskMap") or {},
    )
    names = case.get("volumeNames") or {}
    files = case.get("files") or {}

    def read(file: str, directory: str) -> str:
        text = files.get(directory, {}).get(file)
        if text is None:
            raise CgroupError(f"no {file} in {directory}")
        return text

    pods = [PodMeta(decode(Pod, entry["pod"]), entry["cgroupDir"]) for entry in case.get("pods") or []]
    writes: dict[str, dict[str, list[list[str]]]] = {}
    inputs = Inputs(
        storage=storage,
        strategy=strategy_of(case),
        pods=pods,
        volume_of_claim=lambda space, claim: names.get(f"{space}/{claim}", ""),
        kubelet_root=case["kubeletDir"],
    )
    for updates in blkio_wanted(inputs, LAYOUT, read):
        of_disk = defaultdict(list)
        for update in updates:
            of_disk[update.value.split(" ")[0]].append([update.resource, update.value])
        if of_disk:
            writes[updates[0].directory] = dict(of_disk)
    return {"writes": writes}


def classes(case: dict[str, Any]) -> Any:
    strategy = strategy_of(case)
    if strategy is None:
        return {"writes": []}
    ids = tuple(case.get("cacheIDs") or ())
    caches = wanted.Caches(case["cbm"], case["vendor"], case["l3Num"], ids)
    writes = [[f"{group}/schemata", line] for group, line in wanted.schemata(strategy, caches)]
    threads: dict[str, list[int]] = {}
    pods = []
    for entry in case.get("pods") or []:
        pod = decode(Pod, entry["pod"])
        pods.append(PodMeta(pod, LAYOUT.pod(pod)))
        for status in pod.status.container_statuses:
            of_container = (entry.get("containerTasks") or {}).get(status.name)
            if of_container is not None and status.container_id:
                threads[LAYOUT.container(LAYOUT.pod(pod), status.container_id)] = of_container

    def read(directory: str) -> list[int]:
        if directory not in threads:
            raise CgroupError(f"no tasks in {directory}")
        return threads[directory]

    grouped = {name: frozenset(ids or ()) for name, ids in (case.get("groupTasks") or {}).items()}
    added = wanted.tasks(
        strategy, pods, grouped, lambda meta: wanted.container_directories(meta, LAYOUT), read
    )
    writes += [[f"{group}/tasks", "".join(f"{task}\n" for task in ids)] for group, ids in added.items()]
    return {"writes": writes}


def annotation(case: dict[str, Any]) -> Any:
    try:
        allocation = resctrl.read_annotation(case.get("annotation", ""))
    except ValueError:
        return {"error": True}
    cbm = resctrl.mask_of_cbm(case["cbm"])
    schemata = resctrl.pod_schemata(allocation, cbm, case["vendor"], case.get("cacheIDs") or [])
    return {"error": False, "group": resctrl.pod_group(case["podUID"]), "schemata": schemata}
