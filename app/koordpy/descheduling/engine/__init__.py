"""Runs the plugins of the profiles, cycle by cycle."""
