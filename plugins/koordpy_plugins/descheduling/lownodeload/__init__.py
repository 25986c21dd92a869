"""LowNodeLoad: balance nodes by what they really use."""
