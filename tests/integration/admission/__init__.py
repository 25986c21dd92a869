"""Admission handlers that write to an API server."""
