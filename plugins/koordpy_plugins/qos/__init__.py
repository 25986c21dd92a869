"""In-tree qos plugins, one folder per plugin."""
