"""Refuse GPU requests that no device can satisfy."""
