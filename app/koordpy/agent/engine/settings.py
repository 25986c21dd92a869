"""The settings of the node agent."""

from typing import Any, Literal

from koordpy.api.config_model import ConfigModel, Seconds


class AgentSettings(ConfigModel):
    """The node agent of one node."""

    node_name: str | None = None
    """Default: the environment variable NODE_NAME."""
    mode: Literal["hostMode", "dsMode"] | None = None
    """Which roots are the defaults: the node's own paths, or those of koordlet's DaemonSet. Default: the
    environment variable agent_mode."""
    cgroup_root: str = "/sys/fs/cgroup"
    proc_root: str = "/proc"
    sys_root: str = "/sys"
    undo_with_daemon_set: str | None = None
    """The DaemonSet of the agent, as NAMESPACE/NAME: when it is deleted, original values are restored."""
    flags: dict[str, int | float | bool | str] = {}
    """Flags of plugins, without the two hyphens."""
    args: dict[str, dict[str, Any]] = {}
    """Arguments of plugins by their names."""
    sync_timeout: Seconds = 120.0
