"""The collector of cache occupancy and memory bandwidth of QoS classes."""
