"""Reasons of a failed attempt, and the REST endpoints."""
