"""Refuse labels with which two strategies of one configuration would select a node."""
