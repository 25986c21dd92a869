"""The plugin RemovePodsViolatingNodeAffinity."""
