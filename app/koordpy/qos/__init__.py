"""The node QoS framework: states, metrics, cgroups, and the strategies that use them."""
