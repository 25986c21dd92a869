"""Sets up one plugin of the node agent on a node emulated by files in a test's folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.engine.plugins import declare_series, flags_of
from koordpy.agent.interface import CgroupLayout, FlagValue, Handle, NodePlugin
from koordpy.agent.interface.gates import GATES
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates

from .cluster import settle

P = TypeVar("P", bound=NodePlugin)


@dataclass(frozen=True)
class PluginOnNode(Generic[P]):
    """A plugin that is set up, and its node."""

    plugin: P
    handle: Handle
    root: Path
    """The root of the node's cgroup v2 file system."""

    def cgroup(self, directory: str, files: Mapping[str, str] | None = None) -> Path:
        """Create a cgroup with some files, given by their names in the file system; return its folder."""
        folder = self.root / directory
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="ascii")
        return folder


def set_up(
    plugin: type[P],
    cluster: Cluster,
    node_name: str,
    root: Path,
    *,
    args: Mapping[str, Any] | None = None,
    flags: Mapping[str, FlagValue] | None = None,
    gates: Mapping[str, bool] | None = None,
    version: Version = Version.V2,
    proc_root: Path = Path("/proc"),
    sys_root: Path = Path("/sys"),
) -> PluginOnNode[P]:
    """Take a plugin through `init_flags`, construction and `setup` on a node of the cluster.

    `root` becomes the root of a cgroup file system with systemd's names, v2 unless another version is given;
    `args` are as in a configuration file. Raises ConfigError, FlagError, FeatureGateError.
    """
    files = CgroupFiles(root, version, proc_root=proc_root, sys_root=sys_root)
    layout = CgroupLayout(systemd=True)
    handle = Handle(
        node_name=node_name,
        states=StatesInformer(cluster, node_name, layout, plugin.slo_extensions),
        metrics=MetricCache(cluster.clock),
        layout=layout,
        cgroups=files,
        executor=Executor(files, cluster.clock),
        cluster=cluster,
        gates=FeatureGates({**GATES, **plugin.feature_gates}, gates),
        flags=flags_of([plugin], flags),
        clock=cluster.clock,
        proc_root=proc_root,
        sys_root=sys_root,
    )
    declare_series([plugin], handle.metrics)
    made = plugin.make(handle, args)
    made.setup()
    settle(cluster)
    return PluginOnNode(made, handle, root)
