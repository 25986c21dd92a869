"""Refuse pods without the labels that a ConfigMap asks for."""
