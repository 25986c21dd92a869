"""The ConfigMap's name and the strictness of its validation: flags of koord-manager."""

from koordpy.api.plugin import PluginArgs


class SLOConfigArgs(PluginArgs):
    """`config_namespace` and `config_name` identify the ConfigMap.

    With `node_strategy_name_need_check` node strategies must have different names.
    """

    config_namespace: str = "koordinator-system"
    config_name: str = "slo-controller-config"
    node_strategy_name_need_check: bool = False
