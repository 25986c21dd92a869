"""The ratio by which a node's CPUs are faster than the standard."""
