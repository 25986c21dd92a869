"""Refuse labels that would put a node under two strategies of one configuration."""
