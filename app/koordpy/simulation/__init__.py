"""Simulates days of a cluster in seconds: a scenario, the production wiring in one process, results."""
