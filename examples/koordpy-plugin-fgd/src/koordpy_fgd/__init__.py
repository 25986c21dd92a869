"""Fragmentation Gradient Descent (USENIX ATC 2023), and the policies that the paper compares it with."""
