"""Refuse pods without the labels that a ConfigMap requires."""
