"""The collector of network cards with RDMA."""
