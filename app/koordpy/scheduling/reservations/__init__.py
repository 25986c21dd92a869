"""Whole scheduling cycles in this process, for what kube-scheduler never sees: Reservations."""
