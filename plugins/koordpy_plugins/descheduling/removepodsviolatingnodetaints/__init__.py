"""The plugin RemovePodsViolatingNodeTaints."""
