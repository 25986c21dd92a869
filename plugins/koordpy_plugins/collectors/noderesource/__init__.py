"""The collector of the usage of the node."""
