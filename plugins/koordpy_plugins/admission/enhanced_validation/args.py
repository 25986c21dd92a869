"""Where the rules are."""

from koordpy.api.config_model import ConfigModel


class EnhancedValidationArgs(ConfigModel):
    """The ConfigMap that holds the rules."""

    config_namespace: str = "koordinator-system"
    config_name: str = "pod-enhanced-validator-config"
