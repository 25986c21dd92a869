"""The plugin RemovePodsViolatingTopologySpreadConstraint."""
