"""In-tree descheduling plugins, one folder per plugin."""
