"""The states of a node: its objects, its pods, and callbacks on changes."""
