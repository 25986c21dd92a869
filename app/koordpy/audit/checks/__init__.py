"""The checks: those of one node, each a function of its books, and those of the whole cluster."""
