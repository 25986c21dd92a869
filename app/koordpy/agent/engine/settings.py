"""The settings of the node agent."""

from typing import Any

from koordpy.api.config_model import ConfigModel, Seconds


class AgentSettings(ConfigModel):
    """The node agent of one node."""

    node_name: str | None = None
    """Default: the environment variable NODE_NAME."""
    cgroup_root: str = "/sys/fs/cgroup"
    proc_root: str = "/proc"
    sys_root: str = "/sys"
    flags: dict[str, int | float | bool | str] = {}
    """Flags of plugins, without the two hyphens."""
    args: dict[str, dict[str, Any]] = {}
    """Arguments of plugins by their names."""
    sync_timeout: Seconds = 120.0
