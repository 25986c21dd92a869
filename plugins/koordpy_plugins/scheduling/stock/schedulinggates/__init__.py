"""SchedulingGates: a pod with gates is not queued."""
