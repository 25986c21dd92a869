"""Collectors: what each measures of a node, and the series that it declares."""
