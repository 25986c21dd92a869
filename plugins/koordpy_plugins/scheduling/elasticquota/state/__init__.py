"""The state of quota trees: what quotas request, use and are given."""
