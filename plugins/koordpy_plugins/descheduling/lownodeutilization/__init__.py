"""The plugin LowNodeUtilization."""
