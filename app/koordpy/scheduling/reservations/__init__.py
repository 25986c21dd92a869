"""Complete scheduling cycles in this process for Reservations, which kube-scheduler never sees."""
