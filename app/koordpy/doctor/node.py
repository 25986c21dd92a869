"""What a node lacks for the node agent: kernel features, rights, files that the kubelet writes itself."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from koordpy import gates
from koordpy.agent.cgroups import detection, kernel, kubelet, opened
from koordpy.agent.cgroups.changes import Changes, ChangesError
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.service import CHANGES_DIR
from koordpy.agent.cgroups.table import Version
from koordpy.agent.engine import privileges
from koordpy.agent.engine.agent import declared_flags
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.privileges import Held, Missing
from koordpy.agent.engine.roots import NodeRoots
from koordpy.api.needs import Privilege, PrivilegeNeed
from koordpy.lib.counting import counted
from koordpy.settings import Settings

from .finding import Area, Finding, Report, report

NODE = Area("Node")
KERNEL = Area("Kernel")
RIGHTS = Area("Rights")
FILES = Area("Files of others")

_GIVEN_BY = (
    "deploy/kustomize/components/agent-* and the chart give each feature its privileges; "
    "docs/node-agent.md lists them"
)
_DAEMON_SET = "run it on the node, in the pod of the DaemonSet, which has the rights and mounts"


def examine(settings: Settings) -> Report:
    """Examine the node that this process runs on, as the agent with these settings would see it.

    Raises FlagError, FeatureGateError, PluginError.
    """
    installed = Installed.find()
    flags = declared_flags(installed, settings.agent.flags)
    chosen = gates.chosen(installed.gate_specs(), settings.feature_gates)
    roots = NodeRoots.of(flags, settings.agent)
    files = CgroupFiles(roots.cgroup, proc_root=roots.proc, sys_root=roots.sys, sys_fs_root=roots.sys_fs)
    known = kubelet.find(roots.kubelet, roots.proc)
    layout = detection.detect(roots.cgroup, known.cgroup_driver)
    held = Held(files, roots.kubelet)
    enabled = {type_.name: type_ for type_ in installed.types() if type_.is_switched_on(chosen)}
    findings = [
        *_node(files, detection.found(roots.cgroup), layout.systemd),
        *_kernel(list(kernel.examine(files, layout))),
        *_privileges(held, privileges.needs(enabled, chosen, flags)),
        *_kubelet(known, files.version),
        *_changes(Path(flags.text(CHANGES_DIR))),
    ]
    return report(os.uname().nodename, ["node"], findings)


def _privileges(held: Held, needs: Iterable[tuple[str, tuple[PrivilegeNeed, ...]]]) -> Iterator[Finding]:
    """Report what is missing for what is switched on, by privilege."""
    missing: dict[Privilege, list[Missing]] = {}
    for plugin, wanted in needs:
        for each in held.missing(plugin, wanted):
            missing.setdefault(each.need.privilege, []).append(each)
    for privilege, found in missing.items():
        give = RIGHTS.problem if any(each.need.is_problem for each in found) else RIGHTS.warning
        without = "; ".join(f"{each.plugin}: {each.need.without}" for each in found)
        yield give(privilege.value, f"{found[0].reason}, so {without}", _GIVEN_BY)
    if not missing:
        yield RIGHTS.ok("privileges", "the agent has all that its plugins need")


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
        yield FILES.ok("undo", f"{counted(len(changes), 'value')} below {files.root} can be undone")
        for pause in changes.pauses:
            message = f"{pause} was undone, the agent leaves it alone"
            yield FILES.warning("undo", message, "koordpy qos enable lets the agent write again")
        changes.close()
