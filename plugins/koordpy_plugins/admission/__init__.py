"""In-tree admission plugins, one folder a plugin."""
