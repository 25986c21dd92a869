"""A cluster over days in seconds: a scenario, the production wiring in one process, and what came of it."""
