"""GPUs of a node."""
