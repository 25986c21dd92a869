"""Refuse pods in parent quotas, and changes of the preemptible label."""
