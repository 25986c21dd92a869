"""Set up one QoS plugin on a machine made of files in a test's folder."""

from collections.abc import Mapping
from pathlib import Path

from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage
from koordpy.qos.cgroup import CgroupFiles, Version
from koordpy.qos.executor import Executor
from koordpy.qos.interface import ExtensionPlugin, FlagSet, QOSHandle
from koordpy.qos.metric_cache import MetricCache
from koordpy.qos.paths import CgroupLayout
from koordpy.qos.states import StatesInformer

from .cluster import settle


def set_up(
    plugin: ExtensionPlugin,
    cluster: Cluster,
    node_name: str,
    root: Path,
    *,
    flags: Mapping[str, int | float | bool | str] | None = None,
) -> QOSHandle:
    """Take a plugin through `init_flags` and `setup` on a node of the cluster; return what it was given.

    `root` becomes the root of a cgroup v2 file system with systemd's names. Raises FlagError.
    """
    declared = FlagSet()
    plugin.init_flags(declared)
    for name, value in (flags or {}).items():
        declared.set(name, value)
    files = CgroupFiles(root, Version.V2)
    handle = QOSHandle(
        node_name=node_name,
        states=StatesInformer(cluster, node_name, CgroupLayout(systemd=True)),
        metrics=MetricCache(cluster.clock),
        cgroups=files,
        executor=Executor(files, cluster.clock),
        gates=FeatureGates({plugin.feature: plugin.feature_spec or FeatureSpec(True, Stage.ALPHA)}),
        flags=declared,
        clock=cluster.clock,
    )
    settle(cluster)
    plugin.setup(handle)
    return handle


def cgroup(handle: QOSHandle, directory: str, files: Mapping[str, str] | None = None) -> Path:
    """Make a cgroup with some files, given by their names in the file system; return its folder."""
    folder = handle.cgroups.root / directory
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (files or {}).items():
        (folder / name).write_text(text, encoding="ascii")
    return folder
