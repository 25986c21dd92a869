"""Mutation runs of the critical modules: small faults are put into the code, and tests are to notice each."""
