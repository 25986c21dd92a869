"""A node with runtime hooks, for tests."""
