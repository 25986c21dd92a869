"""Scheduling gates for PreEnqueue plugins."""
