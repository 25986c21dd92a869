"""In-tree admission plugins, one folder per plugin."""
