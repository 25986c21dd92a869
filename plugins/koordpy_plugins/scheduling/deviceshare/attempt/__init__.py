"""One scheduling attempt: what was prepared for it, and the devices that it can have of a node."""
