"""Normalize GPU requests for device scheduling."""
