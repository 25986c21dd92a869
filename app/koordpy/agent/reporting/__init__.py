"""Writes what the node measured and is made of to the API server."""
