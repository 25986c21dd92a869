"""Benchmarks: how fast koordpy is, beside floors and rivals. `python -m bench [NAME...]`."""
