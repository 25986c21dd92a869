"""The admission framework: a chain of small steps behind each webhook path."""
