"""NodeResourcesFit: a node must have the resources that a pod requests."""
