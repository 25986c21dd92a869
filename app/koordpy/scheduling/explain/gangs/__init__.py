"""Explanations of gangs: their members, what they wait for, and which member failed."""
