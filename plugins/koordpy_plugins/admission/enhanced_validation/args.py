"""The name of the ConfigMap."""

from koordpy.api.plugin import PluginArgs


class EnhancedValidationArgs(PluginArgs):
    """The ConfigMap with the rules."""

    config_namespace: str = "koordinator-system"
    config_name: str = "pod-enhanced-validator-config"
