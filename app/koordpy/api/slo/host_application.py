"""Applications on a node that are not pods.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go` (`HostApplicationSpec`).
"""

from typing import Any

import msgspec

from .strategy import Strategy


class CgroupPath(Strategy, frozen=True):
    """An application's cgroup path: `base` is CgroupRoot or one of the Kubepods*."""

    base: str = ""
    parent_dir: str = ""
    relative_path: str = ""


class HostApplicationSpec(Strategy, frozen=True):
    """One application."""

    name: str = ""
    priority: str = ""
    qos: str = ""
    cgroup_path: CgroupPath | None = None
    strategy: dict[str, Any] | None = None


class HostApplications(Strategy, frozen=True):
    """The applications of nodes; those of a node configuration replace the cluster's."""

    applications: list[HostApplicationSpec] = msgspec.field(default_factory=list)
