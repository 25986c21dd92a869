"""Keep pods off parent quotas, and their preemptible label as it is."""
