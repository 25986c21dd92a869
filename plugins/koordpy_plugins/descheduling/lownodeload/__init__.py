"""LowNodeLoad: balance nodes by their actual usage."""
