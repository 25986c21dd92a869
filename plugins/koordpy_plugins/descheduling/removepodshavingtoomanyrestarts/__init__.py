"""The plugin RemovePodsHavingTooManyRestarts."""
