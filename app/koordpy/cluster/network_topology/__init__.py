"""The network of a cluster as a tree: which nodes share a switch, and which switches share another."""
