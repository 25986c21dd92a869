"""PrioritySort: the more important pod first, then the older."""
