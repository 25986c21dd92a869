"""Cgroups of pods that no container status names.

Source: Koordinator, `pkg/koordlet/util/cgroup_parent_utils.go` (`GetPodSandboxContainerID`).
"""

from koordpy.agent.interface.cgroups import CgroupError, Cgroups
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.states import PodMeta


def sandbox(meta: PodMeta, layout: CgroupLayout, cgroups: Cgroups) -> str | None:
    """Return the cgroup of a pod's sandbox: the only one below the pod's that belongs to no container.

    None if there is not exactly one, if the pod has no container yet, or if one has no id yet: then the
    cgroup might be that container's.
    """
    status = meta.pod.status
    if not status.container_statuses:
        return None
    ids = [each.container_id for each in (*status.init_container_statuses, *status.container_statuses)]
    try:
        known = {layout.container(meta.cgroup_dir, each) for each in ids}
        found = [directory for directory, depth in cgroups.walk(meta.cgroup_dir, 1, "cpu") if depth == 1]
    except (CgroupError, ValueError):
        return None
    others = [each for each in found if each not in known and not _is_monitor(each)]
    return others[0] if len(others) == 1 else None


def _is_monitor(directory: str) -> bool:
    """CRI-O's conmon has a scope beside the containers'."""
    return directory.rpartition("/")[2].startswith("crio-conmon-")
