"""A control plane in a box, spoken to over HTTP like the real one."""
