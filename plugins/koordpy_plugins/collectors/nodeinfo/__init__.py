"""The collector of the node's processors and NUMA nodes."""
