"""Test helpers for plugin authors."""
