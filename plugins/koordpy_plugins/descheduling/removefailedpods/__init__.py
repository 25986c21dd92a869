"""The plugin RemoveFailedPods."""
