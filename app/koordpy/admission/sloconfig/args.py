"""Where the configuration is, and how strictly it is checked: flags of koord-manager."""

from koordpy.api.plugin import PluginArgs


class SLOConfigArgs(PluginArgs):
    """`config_namespace` and `config_name` are of the ConfigMap.

    With `node_strategy_name_need_check` node strategies must have names that differ.
    """

    config_namespace: str = "koordinator-system"
    config_name: str = "slo-controller-config"
    node_strategy_name_need_check: bool = False
