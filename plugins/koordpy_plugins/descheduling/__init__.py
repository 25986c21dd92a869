"""In-tree descheduling plugins, one folder a plugin."""
