"""NodePorts: two pods cannot use the same host port of a node."""
