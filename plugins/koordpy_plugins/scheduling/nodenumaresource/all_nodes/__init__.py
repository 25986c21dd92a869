"""Filter and Score of all nodes at once."""
