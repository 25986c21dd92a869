"""PrioritySort: pods with higher priority first, then the older."""
