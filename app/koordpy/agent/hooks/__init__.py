"""Runtime hooks: what pods, containers and QoS classes are given, delivered by reconciliation."""
