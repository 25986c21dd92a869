"""Finds, sets up, runs and supervises the plugins of a node."""
