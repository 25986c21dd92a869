"""Where the rules are."""

from koordpy.api.plugin import PluginArgs


class EnhancedValidationArgs(PluginArgs):
    """The ConfigMap that holds the rules."""

    config_namespace: str = "koordinator-system"
    config_name: str = "pod-enhanced-validator-config"
