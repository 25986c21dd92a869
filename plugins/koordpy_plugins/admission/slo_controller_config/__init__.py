"""Refuse an slo-controller-config that cannot be followed."""
