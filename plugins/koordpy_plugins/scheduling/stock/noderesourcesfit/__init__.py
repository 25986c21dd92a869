"""NodeResourcesFit: a node must have what a pod requests."""
