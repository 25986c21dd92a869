"""What a NodeResourceTopology says about a node: CPUs, NUMA nodes, reserved CPUs, policies."""
