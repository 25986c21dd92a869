"""Quota profiles."""
