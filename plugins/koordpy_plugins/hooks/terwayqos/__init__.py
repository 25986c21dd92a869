"""The runtime hook TerwayQoS."""
