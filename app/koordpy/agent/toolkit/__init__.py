"""What collectors, hooks and QoS plugins compute with."""
