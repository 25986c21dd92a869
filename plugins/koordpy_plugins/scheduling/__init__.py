"""In-tree scheduling plugins, one folder per plugin."""
