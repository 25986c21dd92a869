"""The controllers of quotas, which the leader runs."""
