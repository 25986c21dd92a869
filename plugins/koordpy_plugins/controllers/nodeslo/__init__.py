"""NodeSLOs."""
