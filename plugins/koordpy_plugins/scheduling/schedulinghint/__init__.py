"""SchedulingHint: pods that say where they want to be looked at first."""
