"""What is allocated on every node: CPUs, and amounts on NUMA nodes."""
