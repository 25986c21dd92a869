"""In-tree qos plugins, one folder a plugin."""
