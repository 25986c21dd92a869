"""RDMA cards of a node."""
