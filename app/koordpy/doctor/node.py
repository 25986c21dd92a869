"""What a node lacks for the node agent: kernel features, rights, files that the kubelet writes itself."""

import os
from collections.abc import Iterator
from pathlib import Path

from koordpy.agent.cgroups import detection, kernel, kubelet, opened
from koordpy.agent.cgroups.changes import Changes, ChangesError
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.settings import AgentSettings

from .finding import Area, Finding, Report, report

NODE = Area("Node")
KERNEL = Area("Kernel")
RIGHTS = Area("Rights")
FILES = Area("Files of others")

_DAEMON_SET = "run it on the node, in the pod of the DaemonSet, which has the rights and mounts"


def examine(settings: AgentSettings, *, kubelet_dir: Path, changes_dir: Path) -> Report:
    """Examine the node that this process runs on, as the agent with these settings would see it."""
    root = Path(settings.cgroup_root)
    proc_root, sys_root = Path(settings.proc_root), Path(settings.sys_root)
    files = CgroupFiles(root, proc_root=proc_root, sys_root=sys_root)
    known = kubelet.find(kubelet_dir, proc_root)
    layout = detection.detect(root, known.cgroup_driver)
    findings = [
        *_node(files, detection.found(root), layout.systemd),
        *_kernel(list(kernel.examine(files, layout))),
        *_kubelet(known, files.version),
        *_changes(changes_dir),
    ]
    return report(os.uname().nodename, ["node"], findings)


def _node(files: CgroupFiles, found: bool, systemd: bool) -> Iterator[Finding]:
    version = "v2" if files.unified else "v1"
    system = os.uname()
    yield NODE.ok("kernel", f"{system.sysname} {system.release}")
    if not files.root.is_dir():
        yield NODE.problem("cgroups", f"{files.root} does not exist", _DAEMON_SET)
        return
    yield NODE.ok("cgroups", f"{version} at {files.root}")
    driver = "systemd" if systemd else "cgroupfs"
    if found:
        yield NODE.ok("cgroup driver", driver)
    else:
        message = f"there is no kubepods in {files.root}; {driver} is assumed"
        yield NODE.warning("cgroup driver", message, _DAEMON_SET)


def _kernel(found: list[kernel.Found]) -> Iterator[Finding]:
    installed = {name for name, _ in Installed.find()}
    for each in found:
        feature = each.feature
        plugins = ", ".join(name for name in feature.plugins if name in installed)
        users = f" (for {plugins})" if plugins else ""
        if each.missing:
            message = f"missing{users}: {each.missing}"
            yield KERNEL.note(feature.name, message, f"needs {feature.hint}")
        elif not each.denied:
            yield KERNEL.ok(feature.name, f"supported{users}")
    for each in found:
        if each.denied:
            plugins = ", ".join(name for name in each.feature.plugins if name in installed)
            users = f", so {plugins} cannot work" if plugins else ""
            yield RIGHTS.problem(each.feature.name, f"{each.denied}{users}", _DAEMON_SET)


def _kubelet(known: kubelet.Kubelet, version: Version) -> Iterator[Finding]:
    if known.memory_qos and version is Version.V2:
        names = ", ".join(known.left_alone)
        message = f"the kubelet writes memory protection ({known.source}); the agent leaves {names} alone"
        fix = "turn MemoryQoS off in the kubelet's configuration to have CgroupReconcile write them"
        yield FILES.note("MemoryQoS", message, fix)
    elif known.memory_qos is None:
        message = "the kubelet's configuration does not say whether MemoryQoS is on; it is off by default"
        yield FILES.note("MemoryQoS", message)
    else:
        yield FILES.ok("MemoryQoS", "the kubelet does not write memory protection")


def _changes(folder: Path) -> Iterator[Finding]:
    try:
        remembered: list[tuple[CgroupFiles, Changes]] = opened.remembered(folder)
    except ChangesError:
        yield FILES.ok("undo", f"no agent has changed anything: {folder} has no changes")
        return
    for files, changes in remembered:
        yield FILES.ok("undo", f"{len(changes)} values below {files.root} can be undone")
        for pause in changes.pauses:
            message = f"{pause} was undone, the agent leaves it alone"
            yield FILES.warning("undo", message, "koordpy qos enable lets the agent write again")
        changes.close()
