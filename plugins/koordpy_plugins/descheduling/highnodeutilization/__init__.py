"""The plugin HighNodeUtilization."""
