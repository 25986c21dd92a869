"""SchedulingHint: pods that name the nodes to try first."""
