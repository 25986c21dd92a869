"""NodePorts: two pods cannot have the same port of a node."""
