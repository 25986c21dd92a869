"""In-tree scheduling plugins, one folder a plugin."""
