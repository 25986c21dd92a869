"""Refuse an invalid slo-controller-config."""
